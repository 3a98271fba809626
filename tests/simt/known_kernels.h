// How to call what lies at a kernel's address. Launch (runtime/cuda/kernels/launch.h) makes each kernel known before it
// launches it. May be used from several threads.
#ifndef MESHSEAL_TESTS_SIMT_KNOWN_KERNELS_H_
#define MESHSEAL_TESTS_SIMT_KNOWN_KERNELS_H_

#include <cstddef>
#include <utility>
#include <vector>

namespace simt {

struct KnownKernel {
  // Calls `kernel` as one thread, with the values that `arguments` points to.
  void (*call)(const void* kernel, void** arguments) = nullptr;
  std::vector<size_t> parameter_bytes;  // of each parameter
};

void Remember(const void* kernel, KnownKernel known);

// Null for what was never launched.
const KnownKernel* FindKernel(const void* kernel);

template <class... Parameters>
struct CallOf {
  static void Call(const void* kernel, void** arguments) {
    CallWith(reinterpret_cast<void (*)(Parameters...)>(const_cast<void*>(kernel)), arguments,
             std::index_sequence_for<Parameters...>());
  }

 private:
  template <size_t... kPlace>
  static void CallWith(void (*kernel)(Parameters...), [[maybe_unused]] void** arguments,
                       std::index_sequence<kPlace...>) {
    kernel(*static_cast<Parameters*>(arguments[kPlace])...);
  }
};

template <class... Parameters>
void MakeKnown(void (*kernel)(Parameters...)) {
  Remember(reinterpret_cast<const void*>(kernel), {&CallOf<Parameters...>::Call, {sizeof(Parameters)...}});
}

}  // namespace simt

#endif  // MESHSEAL_TESTS_SIMT_KNOWN_KERNELS_H_
