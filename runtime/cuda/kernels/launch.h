// The one place that launches kernels. Included by .cu files alone.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_LAUNCH_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_LAUNCH_H_

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

namespace meshseal::cuda {

// Enqueues `kernel` on `stream` with its parameters made of `args`. A grid or block without threads is a legal no-op.
// `shared_bytes` is the dynamic shared memory of each block. Errors: those of cudaLaunchKernelExC.
template <class... Parameters, class... Args>
cudaError_t Launch(cudaStream_t stream, void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                   Args&&... args) {
  static_assert(sizeof...(Parameters) == sizeof...(Args), "as many arguments as the kernel has parameters");
  static_assert((std::is_trivially_copyable_v<Parameters> && ...), "a launch copies its arguments byte by byte");
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0) return cudaSuccess;
  std::tuple<Parameters...> values(std::forward<Args>(args)...);
  auto pointers = std::apply(
      [](auto&... value) { return std::array<void*, sizeof...(Parameters)>{static_cast<void*>(&value)...}; }, values);
  // By place: its members gridDim and blockDim are macros under the shim.
  const cudaLaunchConfig_t config = {grid, block, shared_bytes, stream, nullptr, 0};
#if defined(MESHSEAL_SIMT)
  ::simt::MakeKnown(kernel);  // how to call what is at this address
  std::apply([](auto&... value) { (::simt::ClearPadding(value), ...); }, values);
#endif
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), pointers.data());
}

// Blocks of `per_block` that hold `count` things.
constexpr unsigned BlocksFor(uint64_t count, unsigned per_block) {
  return static_cast<unsigned>((count + per_block - 1) / per_block);
}

// Blocks of `threads` columns for each of `rows` rows.
inline dim3 GridOfRows(uint64_t rows, uint64_t columns, unsigned threads) {
  return dim3(static_cast<unsigned>(rows), BlocksFor(columns, threads));
}

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_LAUNCH_H_
