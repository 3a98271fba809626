// What CUDA has built in, as plain C++: included in front of a kernel's source (-include), which then compiles with g++
// or clang++ (-x c++ -DMESHSEAL_SIMT) and runs by RunKernel. See README.md.
#ifndef MESHSEAL_TESTS_SIMT_SIMT_H_
#define MESHSEAL_TESTS_SIMT_SIMT_H_

#include <cuda_runtime_api.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "tests/simt/block.h"
#include "tests/simt/clear_padding.h"
#include "tests/simt/known_kernels.h"
#include "tests/simt/site.h"

#if !defined(MESHSEAL_SIMT)
#error "simt.h is for sources that are compiled with MESHSEAL_SIMT"
#endif

// Shared memory is what MESHSEAL_SHARED and DynamicShared of device_code.h give.
#undef __shared__
#define __shared__ static_assert(false, "use MESHSEAL_SHARED of device_code.h");

// What a device's compiler may assume of blocks, and how many registers it may take.
#undef __launch_bounds__
#define __launch_bounds__(...)

#define SIMT_SITE (::simt::Site{__FILE__, __LINE__})

#define threadIdx (::simt::current_block->thread_index())
#define blockIdx (::simt::current_block->index())
#define blockDim (::simt::current_block->kernel().block)
#define gridDim (::simt::current_block->kernel().grid)

namespace simt {

template <class T>
T& StaticShared(Site site) {
  static const char type = 0;  // its address stands for T
  return *static_cast<T*>(current_block->StaticShared(site, &type, sizeof(T)));
}

inline void* DynamicShared() { return current_block->DynamicShared(); }

// The values of all lanes of the warp. For the host bodies of instructions that a warp executes together.
template <class T>
std::array<T, kWarpLanes> AllLanes(T value, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::array<T, kWarpLanes> values;
  current_block->Gather(kAllLanes, &value, values.data(), sizeof(T), {file, line});
  return values;
}

template <class T>
T ShuffleFrom(unsigned mask, T value, unsigned from, Site site) {
  static_assert(std::is_arithmetic_v<T> && sizeof(T) >= 4, "what CUDA shuffles");
  T result = value;
  current_block->Shuffle(mask, &value, &result, sizeof(T), from, site);
  return result;
}

inline unsigned BallotOf(unsigned mask, bool predicate, Site site) {
  std::array<bool, kWarpLanes> all{};
  current_block->Gather(mask, &predicate, all.data(), sizeof(bool), site);
  unsigned bits = 0;
  for (unsigned lane = 0; lane < kWarpLanes; ++lane) bits |= static_cast<unsigned>(all[lane]) << lane;
  return bits;
}

}  // namespace simt

// The names and parameters of CUDA, and where they are called.
#define SIMT_WHERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(SIMT_WHERE) { ::simt::current_block->WaitForBlock({file, line}); }

inline void __syncwarp(unsigned mask = simt::kAllLanes, SIMT_WHERE) {
  ::simt::current_block->WaitForLanes(mask, {file, line});
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, SIMT_WHERE) {
  const unsigned lane = ::simt::current_block->lane();
  const unsigned inside = static_cast<unsigned>(width) - 1;
  return ::simt::ShuffleFrom(mask, value, (lane & ~inside) | (static_cast<unsigned>(source) & inside), {file, line});
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, SIMT_WHERE) {
  const unsigned lane = ::simt::current_block->lane();
  const unsigned from = lane ^ static_cast<unsigned>(lane_mask);
  const unsigned end = (lane | (static_cast<unsigned>(width) - 1)) + 1;
  return ::simt::ShuffleFrom(mask, value, from < end ? from : lane, {file, line});
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, SIMT_WHERE) {
  const unsigned lane = ::simt::current_block->lane();
  const unsigned inside = static_cast<unsigned>(width) - 1;
  return ::simt::ShuffleFrom(mask, value, (lane & inside) + delta <= inside ? lane + delta : lane, {file, line});
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, SIMT_WHERE) {
  const unsigned lane = ::simt::current_block->lane();
  const unsigned inside = static_cast<unsigned>(width) - 1;
  return ::simt::ShuffleFrom(mask, value, (lane & inside) >= delta ? lane - delta : lane, {file, line});
}

inline unsigned __ballot_sync(unsigned mask, int predicate, SIMT_WHERE) {
  return ::simt::BallotOf(mask, predicate != 0, {file, line});
}

inline int __any_sync(unsigned mask, int predicate, SIMT_WHERE) {
  return ::simt::BallotOf(mask, predicate != 0, {file, line}) != 0 ? 1 : 0;
}

inline int __all_sync(unsigned mask, int predicate, SIMT_WHERE) {
  return ::simt::BallotOf(mask, predicate != 0, {file, line}) == mask ? 1 : 0;
}

#undef SIMT_WHERE

inline int __popc(unsigned value) { return std::popcount(value); }
inline int __ffs(int value) { return value == 0 ? 0 : std::countr_zero(static_cast<unsigned>(value)) + 1; }
inline int __clz(int value) { return std::countl_zero(static_cast<unsigned>(value)); }
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline float __uint_as_float(unsigned value) { return std::bit_cast<float>(value); }

template <class T>
T __ldg(const T* place) {
  return *place;
}

// Four products of signed bytes, and a sum.
inline int __dp4a(int a, int b, int sum) {
  for (int shift = 0; shift < 32; shift += 8) {
    const int product = static_cast<int8_t>(a >> shift) * static_cast<int8_t>(b >> shift);
    sum = static_cast<int>(static_cast<unsigned>(sum) + static_cast<unsigned>(product));
  }
  return sum;
}

#endif  // MESHSEAL_TESTS_SIMT_SIMT_H_
