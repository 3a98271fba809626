// Elements as the bytes that messages are made of.
#ifndef MESHSEAL_RUNTIME_COMM_ELEMENT_BYTES_H_
#define MESHSEAL_RUNTIME_COMM_ELEMENT_BYTES_H_

#include <cstddef>
#include <type_traits>

#include "absl/types/span.h"

namespace meshseal::runtime {

// To be sent.
template <class T>
absl::Span<const std::byte> BytesOf(absl::Span<const T> elements) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<const std::byte*>(elements.data()), elements.size() * sizeof(T)};
}

// To be received into.
template <class T>
absl::Span<std::byte> BytesIn(absl::Span<T> elements) {
  static_assert(std::is_trivially_copyable_v<T> && !std::is_const_v<T>);
  return {reinterpret_cast<std::byte*>(elements.data()), elements.size() * sizeof(T)};
}

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_COMM_ELEMENT_BYTES_H_
