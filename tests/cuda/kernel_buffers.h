// What tests of kernels have in common: buffers as a device would have them, routings, and seeds.
#ifndef MESHSEAL_TESTS_CUDA_KERNEL_BUFFERS_H_
#define MESHSEAL_TESTS_CUDA_KERNEL_BUFFERS_H_

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <tuple>
#include <vector>

#include "runtime/cuda/kernels/step_pods.h"
#include "tests/simt/direct_launch.h"

namespace meshseal::cuda {

inline constexpr uint64_t kSeeds = 8;  // of schedules; 0 is ascending

// `count` elements of bytes 0xFF: NaNs, and integers of -1.
template <class T>
std::vector<T> Unwritten(size_t count) {
  std::vector<T> values(count);
  if (count > 0) std::memset(values.data(), 0xFF, count * sizeof(T));
  return values;
}

// Calls launches(seed) under several schedules. Each must succeed.
template <class F>
void UnderEverySchedule(const F& launches) {
  for (uint64_t seed = 0; seed <= kSeeds; ++seed) {
    simt::SetSeed(seed);
    const cudaError_t status = launches();
    ASSERT_EQ(simt::TakeError(), "") << "seed " << seed;
    ASSERT_EQ(status, cudaSuccess) << "seed " << seed;
  }
}

template <class T>
bool SameBytes(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// Calls launch() under the order of `seed`. It must succeed.
template <class Launch>
void RunUnder(uint64_t seed, const Launch& launch) {
  simt::SetSeed(seed);
  const cudaError_t launched = launch();
  EXPECT_EQ(simt::TakeError(), "") << "seed " << seed;
  EXPECT_EQ(launched, cudaSuccess) << "seed " << seed;
}

// Calls launch() under every schedule, with `outputs` as they are now: it leaves the same bytes in them under all.
template <class Launch, class... T>
void RunUnderAll(const Launch& launch, std::vector<T>&... outputs) {
  const std::tuple<std::vector<T>...> before(outputs...);
  RunUnder(0, launch);
  const std::tuple<std::vector<T>...> found(outputs...);
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    // In place: `launch` knows where they are.
    std::apply([&](const auto&... was) { (std::copy(was.begin(), was.end(), outputs.begin()), ...); }, before);
    RunUnder(seed, launch);
    std::apply([&](const auto&... first) { EXPECT_TRUE((SameBytes(outputs, first) && ...)) << "seed " << seed; },
               found);
  }
}

// Bit by bit; a NaN is as good as another.
inline bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i])) return false;
  }
  return true;
}

inline StepTokens Tokens(uint32_t tokens, uint64_t first_token = 0) {
  StepTokens step;
  step.first_token = first_token;
  step.tokens = tokens;
  return step;
}

// Finite numbers of mixed magnitudes.
inline std::vector<float> Numbers(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = std::ldexp(static_cast<float>(random() % 2001) - 1000.0f, -static_cast<int>(random() % 12));
  }
  return values;
}

// Different experts for each token.
inline std::vector<int32_t> RandomExperts(uint32_t tokens, uint32_t top_k, uint32_t experts, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> chosen;
  for (uint32_t token = 0; token < tokens; ++token) {
    const auto first = static_cast<uint32_t>(random() % experts);
    for (uint32_t j = 0; j < top_k; ++j)
      chosen.push_back(static_cast<int32_t>((first + j * (experts / top_k)) % experts));
  }
  return chosen;
}

// Every second expert is held by this rank; where `copies`, it is one of 2 copies of those.
inline std::vector<runtime::ExpertPlace> HalfHeld(uint32_t experts, bool copies = false) {
  std::vector<runtime::ExpertPlace> places(experts);
  for (uint32_t expert = 0; expert < experts; expert += 2) {
    places[expert].local = static_cast<int32_t>(expert / 2);
    if (copies) places[expert].copies = 2;
    if (copies) places[expert].copy = expert / 2 % 2;
  }
  return places;
}

inline std::vector<runtime::ExpertPlace> NoneHeld(uint32_t experts) {
  return std::vector<runtime::ExpertPlace>(experts);
}

}  // namespace meshseal::cuda

#endif  // MESHSEAL_TESTS_CUDA_KERNEL_BUFFERS_H_
