// The shim itself: kernels that are right pass under every order, and each fault is seen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <new>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "tests/simt/clear_padding.h"
#include "tests/simt/direct_launch.h"
#include "tests/simt/run_kernel.h"
#include "tests/simt/sample_kernels.h"
#include "tests/simt/symbol_name.h"

#if defined(__SANITIZE_ADDRESS__)
#define MESHSEAL_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#define MESHSEAL_ADDRESS_SANITIZER __has_feature(address_sanitizer)
#else
#define MESHSEAL_ADDRESS_SANITIZER 0
#endif

namespace simt {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr uint64_t kSeeds = 12;
constexpr unsigned kBlocks = 5;

std::vector<int> Values() {
  std::vector<int> values(kBlocks * kSumThreads);
  std::iota(values.begin(), values.end(), 1);
  return values;
}

std::vector<int> Sums() {
  std::vector<int> sums(kBlocks, 0);
  const std::vector<int> values = Values();
  for (size_t i = 0; i < values.size(); ++i) sums[i / kSumThreads] += values[i];
  return sums;
}

// What the launch says: "" where it succeeded.
std::string ErrorOf(cudaError_t launched) {
  std::string error = TakeError();
  EXPECT_EQ(launched, error.empty() ? cudaSuccess : cudaErrorLaunchFailure);
  return error;
}

std::string ErrorOfSums(uint64_t seed, Fault fault) {
  SetSeed(seed);
  std::vector<int> out(kBlocks);
  return ErrorOf(LaunchBlockSums(Values().data(), out.data(), kBlocks, fault));
}

std::string ErrorOfWarp(uint64_t seed, Fault fault) {
  SetSeed(seed);
  std::vector<int> out(32);
  return ErrorOf(LaunchOneWarp(out.data(), fault));
}

TEST(SimtTest, RightKernelsPassUnderEverySeed) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SetSeed(seed);
    std::vector<int> out(kBlocks, -1);
    EXPECT_EQ(ErrorOf(LaunchBlockSums(Values().data(), out.data(), kBlocks, Fault::kNone)), "");
    EXPECT_EQ(out, Sums());
    EXPECT_EQ(ErrorOfWarp(seed, Fault::kNone), "");
  }
}

TEST(SimtTest, WarpOperationsGiveWhatTheDeviceGives) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SetSeed(seed);
    std::vector<int> out(32 * 7, -1);
    ASSERT_EQ(ErrorOf(LaunchWarpOperations(out.data())), "");
    for (int lane = 0; lane < 32; ++lane) {
      const std::vector<int> row(out.begin() + lane * 7, out.begin() + lane * 7 + 7);
      const int down = lane % 8 < 5 ? lane + 3 : lane;
      const int up = lane % 8 >= 3 ? lane - 3 : lane;
      EXPECT_EQ(row, (std::vector<int>{5, lane ^ 16, down, up, 0x49249249, 3, 31 - lane})) << lane;
    }
  }
}

TEST(SimtTest, IndicesOfThreeDimensions) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    SetSeed(seed);
    std::vector<unsigned> out(24 * 30, 0);
    ASSERT_EQ(ErrorOf(LaunchIndices(dim3(2, 3, 4), dim3(5, 3, 2), out.data())), "");
    for (unsigned i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], i / 30 * 1000 + i % 30);
  }
  EXPECT_EQ(ErrorOf(LaunchIndices(dim3(0, 3, 4), dim3(5, 3, 2), nullptr)), "");  // no blocks: a no-op
}

TEST(SimtTest, AMissingBarrierGivesWrongSums) {
  int wrong = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SetSeed(seed);
    std::vector<int> out(kBlocks, -1);
    ASSERT_EQ(ErrorOf(LaunchBlockSums(Values().data(), out.data(), kBlocks, Fault::kNoBarrier)), "");
    wrong += out == Sums() ? 0 : 1;
  }
  EXPECT_EQ(wrong, 8);
}

TEST(SimtTest, AStoreBeyondTheEndIsSeenByTheGuardAfterIt) {
  SetSeed(1);
  std::vector<int> out(kBlocks + 1, -1);
  ASSERT_EQ(ErrorOf(LaunchBlockSums(Values().data(), out.data(), kBlocks, Fault::kStoreBeyond)), "");
  EXPECT_EQ(out.back(), Sums().back());  // the guard
}

#if MESHSEAL_ADDRESS_SANITIZER
TEST(SimtDeathTest, StoresBeyondTheEndAreSeenByTheSanitizer) {
  EXPECT_DEATH(ErrorOfSums(1, Fault::kStoreBeyond), "heap-buffer-overflow(.|\n)*sample_kernels.cu");
  EXPECT_DEATH(ErrorOfSums(1, Fault::kSharedBeyond), "heap-buffer-overflow(.|\n)*sample_kernels.cu");
  EXPECT_DEATH(ErrorOfSums(1, Fault::kDynamicBeyond), "heap-buffer-overflow(.|\n)*sample_kernels.cu");
}
#endif

TEST(SimtTest, BarriersThatNotAllReach) {
  EXPECT_EQ(
      ErrorOfSums(0, Fault::kBarrierInBranch),
      "kernel simt::(anonymous namespace)::BlockSums(int const*, int*, simt::Fault), block (0, 0, 0), thread (64, 0, "
      "0): barrier not reached by all: it exits, thread (0, 0, 0) waits at sample_kernels.cu:27");
  EXPECT_EQ(
      ErrorOfSums(0, Fault::kBarrierAfterExit),
      "kernel simt::(anonymous namespace)::BlockSums(int const*, int*, simt::Fault), block (0, 0, 0), thread (64, 0, "
      "0): barrier after exits: it arrives at sample_kernels.cu:27, thread (0, 0, 0) has exited");
  EXPECT_EQ(
      ErrorOfSums(0, Fault::kTwoBarriers),
      "kernel simt::(anonymous namespace)::BlockSums(int const*, int*, simt::Fault), block (0, 0, 0), thread (64, 0, "
      "0): divergent barriers: it arrives at sample_kernels.cu:25, thread (0, 0, 0) waits at sample_kernels.cu:27");
  for (uint64_t seed = 1; seed < kSeeds; ++seed) {
    EXPECT_THAT(ErrorOfSums(seed, Fault::kBarrierInBranch), HasSubstr("): barrier ")) << seed;
    EXPECT_THAT(ErrorOfSums(seed, Fault::kBarrierAfterExit), HasSubstr("): barrier ")) << seed;
    EXPECT_THAT(ErrorOfSums(seed, Fault::kTwoBarriers), HasSubstr("): divergent barriers: ")) << seed;
  }
}

TEST(SimtTest, WarpsThatDiverge) {
  const std::string kernel = "kernel simt::(anonymous namespace)::OneWarp(int*, simt::Fault), block (0, 0, 0), ";
  EXPECT_EQ(ErrorOfWarp(0, Fault::kShortMask),
            kernel + "thread (0, 0, 0): lane outside its own mask 0xfffffffe at sample_kernels.cu:44");
  EXPECT_EQ(ErrorOfWarp(0, Fault::kShuffleOutsideMask),
            kernel + "thread (0, 0, 0): shuffle from lane 16 outside the mask 0xffff at sample_kernels.cu:47");
  EXPECT_EQ(ErrorOfWarp(0, Fault::kWarpAfterExit),
            kernel + "thread (1, 0, 0): lane 0 of the mask 0xffffffff has exited at sample_kernels.cu:44");
  EXPECT_EQ(ErrorOfWarp(0, Fault::kTwoWarpBarriers),
            kernel +
                "thread (1, 0, 0): divergent warp: it arrives at sample_kernels.cu:44, thread (0, 0, 0) waits at "
                "sample_kernels.cu:42");
  EXPECT_EQ(ErrorOfWarp(0, Fault::kWarpWaitsForBlock),
            kernel +
                "thread (0, 0, 0): deadlock: 32 threads wait for each other, thread (0, 0, 0) waits at "
                "sample_kernels.cu:40");
  for (uint64_t seed = 1; seed < kSeeds; ++seed) {
    for (const Fault fault : {Fault::kShortMask, Fault::kShuffleOutsideMask, Fault::kWarpAfterExit,
                              Fault::kTwoWarpBarriers, Fault::kWarpWaitsForBlock}) {
      EXPECT_NE(ErrorOfWarp(seed, fault), "") << seed;
    }
  }
  // Somebody exits while others wait for it.
  std::set<std::string> endings;
  for (uint64_t seed = 1; seed < kSeeds; ++seed) {
    const std::string error = ErrorOfWarp(seed, Fault::kWarpAfterExit);
    endings.insert(error.substr(error.find("): ") + 3, 33));
  }
  EXPECT_THAT(endings, testing::Contains("warp operation not reached by all"));
}

TEST(SimtTest, AFailedBlockLeavesTheNextRunAlone) {
  EXPECT_NE(ErrorOfSums(3, Fault::kBarrierInBranch), "");
  EXPECT_EQ(ErrorOfSums(3, Fault::kNone), "");
}

TEST(SimtTest, OrderSensitivityShowsOverEightSeeds) {
  std::set<unsigned> last;
  std::set<unsigned> again;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    for (std::set<unsigned>* seen : {&last, &again}) {
      SetSeed(seed);
      unsigned out = 0;
      ASSERT_EQ(ErrorOf(LaunchOrderSensitive(&out, 16)), "");
      seen->insert(out);
    }
  }
  EXPECT_GT(last.size(), 3u);
  EXPECT_EQ(last, again);  // the seed decides it
}

struct Padded {
  const void* pointer = nullptr;
  bool flag = true;
  struct {
    uint16_t small = 7;
    uint32_t number = 9;
  } inner[2];
};

TEST(SimtTest, PaddingOfArgumentsIsClearedAndNothingElse) {
  alignas(Padded) std::array<unsigned char, sizeof(Padded)> bytes;
  bytes.fill(0xAB);
  auto* const padded = new (bytes.data()) Padded;
  padded->pointer = bytes.data();
  padded->inner[1].number = 0xFFFFFFFF;
  ClearPadding(*padded);
  EXPECT_EQ(padded->pointer, bytes.data());
  EXPECT_TRUE(padded->flag);
  EXPECT_EQ(padded->inner[0].small, 7);
  EXPECT_EQ(padded->inner[0].number, 9u);
  EXPECT_EQ(padded->inner[1].small, 7);
  EXPECT_EQ(padded->inner[1].number, 0xFFFFFFFF);
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), 0xAB), 0);
  uint64_t number = 0xABABABABABABABAB;
  ClearPadding(number);
  EXPECT_EQ(number, 0xABABABABABABABAB);
}

TEST(SimtTest, SharedMemoryIsFilledBeforeEachBlock) {
  std::vector<uint32_t> out(2 * 3, 0);
  ASSERT_EQ(ErrorOf(LaunchUnwritten(out.data(), 3)), "");
  EXPECT_EQ(out, std::vector<uint32_t>(6, 0xFFFFFFFFu));
}

TEST(SimtTest, WhatCannotBeLaunchedIsNamed) {
  EXPECT_THAT(ErrorOf(LaunchIndices(dim3(1), dim3(1025), nullptr)),
              "kernel simt::(anonymous namespace)::Indices(unsigned int*), 1025 threads in a block");
  std::string error;
  const auto* unknown = reinterpret_cast<const void*>(&SetSeed);
  EXPECT_FALSE(RunKernel(unknown, dim3(1), dim3(1), 0, nullptr, 0, &error));
  EXPECT_EQ(error, "kernel simt::SetSeed(unsigned long), which Launch did not make known");
  EXPECT_TRUE(ParameterBytes(unknown).empty());
  EXPECT_THAT(SymbolName(&error), StartsWith("0x"));
}

}  // namespace
}  // namespace simt
