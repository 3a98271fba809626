// What every kernel needs of the device. Included by .cu files alone, which compile twice: by nvcc, and as plain C++
// under the SIMT shim (tests/simt), which defines MESHSEAL_SIMT and what CUDA has built in.
//
// A wrapper around an instruction has two bodies: PTX for the device, and one for the host that gives the same bits.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_DEVICE_CODE_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_DEVICE_CODE_H_

#include <cstddef>
#include <cstdint>

#if !defined(__CUDACC__) && !defined(MESHSEAL_SIMT)
#error "device code: nvcc compiles it, or a C++ compiler under the SIMT shim"
#endif

// In front of a function of the device alone.
#define MESHSEAL_DEVICE __device__ inline

// The same, of one that must not be called: what its caller keeps in registers a call would put into memory.
#if defined(MESHSEAL_SIMT)
#define MESHSEAL_DEVICE_INTO_CALLER __device__ inline
#else
#define MESHSEAL_DEVICE_INTO_CALLER __device__ __forceinline__
#endif

// An array of the block in shared memory: MESHSEAL_SHARED(partial, float[kWarps]); the name, then the whole type. The
// shim fills it with a pattern before each block and watches its bounds, which it could not do of a plain __shared__.
#if defined(MESHSEAL_SIMT)
#define MESHSEAL_SHARED(name, ...) auto& name = ::simt::StaticShared<__VA_ARGS__>(SIMT_SITE)
#else
#define MESHSEAL_SHARED(name, ...) __shared__ ::meshseal::cuda::SameType<__VA_ARGS__> name
#endif

namespace meshseal::cuda {

template <class T>
using SameType = T;

inline constexpr uint32_t kWarpLanes = 32;
inline constexpr uint32_t kWholeWarp = 0xFFFFFFFFu;

// The dynamic shared memory of the block, all kernels' the same bytes, aligned to 16.
template <class T>
MESHSEAL_DEVICE T* DynamicShared() {
#if defined(MESHSEAL_SIMT)
  return static_cast<T*>(::simt::DynamicShared());
#else
  extern __shared__ __align__(16) unsigned char meshseal_dynamic_shared[];
  return reinterpret_cast<T*>(meshseal_dynamic_shared);
#endif
}

MESHSEAL_DEVICE uint32_t Lane() { return threadIdx.x % kWarpLanes; }
MESHSEAL_DEVICE uint32_t Warp() { return threadIdx.x / kWarpLanes; }

// The number of this thread over a grid of one dimension.
MESHSEAL_DEVICE uint64_t GridThread() { return uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; }

// Of a grid of GridOfRows (launch.h): this block's row, and this thread's column.
MESHSEAL_DEVICE uint64_t GridRow() { return blockIdx.x; }
MESHSEAL_DEVICE uint64_t GridColumn() { return uint64_t{blockIdx.y} * blockDim.x + threadIdx.x; }

MESHSEAL_DEVICE bool IsFinite(float value) { return (__float_as_uint(value) & 0x7F800000u) != 0x7F800000u; }

// What `fold` makes of a whole warp's values, two at a time: a butterfly from the outermost pair inwards.
template <class T, class Fold>
MESHSEAL_DEVICE T WarpFold(T value, const Fold& fold) {
  for (uint32_t offset = kWarpLanes / 2; offset > 0; offset /= 2) {
    value = fold(value, __shfl_xor_sync(kWholeWarp, value, static_cast<int>(offset)));
  }
  return value;
}

// The sum, the same bits on every lane. Host code that gives the same bits: runtime/numerics/interleaved_sum.h.
template <class T>
MESHSEAL_DEVICE T WarpSum(T value) {
  return WarpFold(value, [](T a, T b) { return a + b; });
}

// The sum of the values up to this lane's, which is one of them.
template <class T>
MESHSEAL_DEVICE T WarpSumUpTo(T value) {
  for (uint32_t distance = 1; distance < kWarpLanes; distance *= 2) {
    const T other = __shfl_up_sync(kWholeWarp, value, distance);
    if (Lane() >= distance) value += other;
  }
  return value;
}

// The lowest and the highest, on every lane; not for NaN.
template <class T>
MESHSEAL_DEVICE T WarpMin(T value) {
  return WarpFold(value, [](T a, T b) { return b < a ? b : a; });
}
template <class T>
MESHSEAL_DEVICE T WarpMax(T value) {
  return WarpFold(value, [](T a, T b) { return a < b ? b : a; });
}

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_DEVICE_CODE_H_
