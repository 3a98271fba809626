// Zeros between the members of a kernel's argument. What lies there is what the stack held before; a stand-in of the
// CUDA runtime, which looks for addresses in arguments, would take it for some.
#ifndef MESHSEAL_TESTS_SIMT_CLEAR_PADDING_H_
#define MESHSEAL_TESTS_SIMT_CLEAR_PADDING_H_

#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>

namespace simt {

// `T` is trivially copyable. All of its members, or none, have initialisers.
template <class T>
void ClearPadding([[maybe_unused]] T& value) {
#if __has_builtin(__builtin_clear_padding)
  __builtin_clear_padding(&value);
#else
  if constexpr (!std::is_trivially_default_constructible_v<T>) {
    // A constructor writes members alone: padding is what keeps other bytes under it.
    struct Constructed {
      explicit Constructed(int fill) {
        std::memset(bytes, fill, sizeof(T));
        ::new (static_cast<void*>(bytes)) T;
      }
      alignas(T) std::byte bytes[sizeof(T)];
    };
    static const Constructed on_zeros(0);
    static const Constructed on_ones(0xFF);
    auto* const bytes = reinterpret_cast<std::byte*>(&value);
    for (size_t i = 0; i < sizeof(T); ++i) {
      if (on_zeros.bytes[i] != on_ones.bytes[i]) bytes[i] = std::byte{0};
    }
  }
#endif
}

}  // namespace simt

#endif  // MESHSEAL_TESTS_SIMT_CLEAR_PADDING_H_
