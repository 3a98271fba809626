#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "tests/fake_cuda/test_kernels.h"

// Null where the address sanitizer is not.
extern "C" __attribute__((weak)) int __asan_address_is_poisoned(const volatile void* address);

namespace fake_cuda {
namespace {

using testing::Each;
using testing::ElementsAre;

constexpr size_t kBytes = 64;

class MemoryTest : public FakeCudaTest {
 protected:
  void SetUp() override {
    FakeCudaTest::SetUp();
    stream_ = NewStream();
    ASSERT_EQ(cudaMalloc(&device_, kBytes), cudaSuccess);
    ASSERT_EQ(cudaHostAlloc(&pinned_, kBytes, cudaHostAllocDefault), cudaSuccess);
  }

  cudaError_t Copy(void* to, const void* from, cudaMemcpyKind kind, size_t bytes = kBytes) {
    return cudaMemcpyAsync(to, from, bytes, kind, stream_);
  }

  cudaStream_t stream_ = nullptr;
  void* device_ = nullptr;
  void* pinned_ = nullptr;
};

TEST_F(MemoryTest, FreshMemoryIsNaN) {
  for (const float value : Read(static_cast<float*>(device_), kBytes / 4, stream_)) EXPECT_TRUE(std::isnan(value));
  EXPECT_TRUE(std::isnan(*static_cast<float*>(pinned_)));
}

TEST_F(MemoryTest, MemoryIsAlignedTo256BytesAndNoMore) { EXPECT_EQ(reinterpret_cast<uintptr_t>(device_) % 512, 256u); }

TEST_F(MemoryTest, ADeviceHasAnEnd) {
  Device small;
  small.memory_bytes = 4096;
  Restart(Options{{small, small}});
  size_t free = 0;
  size_t total = 0;
  void* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, 3000), cudaSuccess);
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(total, 4096u);
  EXPECT_EQ(free, 1024u);
  void* more = nullptr;
  EXPECT_EQ(cudaMalloc(&more, 1025), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMalloc(&more, SIZE_MAX), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&more, 1025), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&data, 4096), cudaSuccess);
}

TEST_F(MemoryTest, KindsOfCopiesAreChecked) {
  std::vector<std::byte> pageable(kBytes);
  EXPECT_EQ(Copy(device_, pinned_, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(Copy(device_, pageable.data(), cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(Copy(pinned_, device_, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(Copy(pinned_, pageable.data(), cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(Copy(device_, pinned_, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(Copy(device_, device_, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(Copy(device_, pageable.data(), cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(Copy(pinned_, device_, cudaMemcpyHostToHost), cudaErrorInvalidValue);
  EXPECT_EQ(Copy(nullptr, device_, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(Copy(nullptr, device_, cudaMemcpyDeviceToHost, 0), cudaSuccess);
}

TEST_F(MemoryTest, CopiesAndFillsEndWhereTheMemoryEnds) {
  auto* const inside = static_cast<std::byte*>(device_) + 1;
  EXPECT_EQ(Copy(device_, pinned_, cudaMemcpyHostToDevice, kBytes + 1), cudaErrorInvalidValue);
  EXPECT_EQ(Copy(inside, pinned_, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(inside, 0, kBytes, stream_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(inside, 0, kBytes - 1, stream_), cudaSuccess);
  std::vector<std::byte> pageable(kBytes);
  EXPECT_EQ(cudaMemsetAsync(pageable.data(), 0, kBytes, stream_), cudaErrorInvalidValue);
}

TEST_F(MemoryTest, FreedMemoryIsNoMemory) {
  ASSERT_EQ(cudaFree(device_), cudaSuccess);
  EXPECT_EQ(Copy(pinned_, device_, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(device_, 0, kBytes, stream_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(device_), cudaErrorInvalidValue);
  ExpectViolations({"cudaFree: not what was allocated, or freed before"});
}

TEST_F(MemoryTest, EachIsFreedAsItWasAllocated) {
  EXPECT_EQ(cudaFree(pinned_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(device_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(static_cast<std::byte*>(device_) + 8), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  ExpectViolations({"cudaFree: not what was allocated, or freed before",
                    "cudaFreeHost: not what was allocated, or freed before",
                    "cudaFree: not what was allocated, or freed before"});
}

TEST_F(MemoryTest, LeaksAreCounted) {
  Alive alive;
  alive.device_allocations = alive.pinned_allocations = alive.streams = 1;
  alive.device_bytes = 512;
  EXPECT_EQ(LeakReport(), alive);
  EXPECT_EQ(cudaFree(device_), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(pinned_), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  EXPECT_EQ(LeakReport(), Alive());
}

TEST_F(MemoryTest, WritesBehindTheEndAreFoundAtSynchronise) {
  ASSERT_EQ(Launch(stream_, PokeKernel, static_cast<uint8_t*>(device_), int64_t{kBytes}), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  ExpectViolations({"device 0, allocation 1 (64 bytes): written behind its last byte"});
}

TEST_F(MemoryTest, WritesBeforeTheBeginningAreFoundAtFree) {
  ASSERT_EQ(Launch(stream_, PokeKernel, static_cast<uint8_t*>(pinned_), int64_t{-1}), cudaSuccess);
  ASSERT_EQ(cudaFree(device_), cudaSuccess);
  ExpectViolations({"pinned memory, allocation 2 (64 bytes): written before its first byte"});
}

TEST_F(MemoryTest, WritesToFreedMemoryAreFound) {
  auto* const freed = static_cast<uint8_t*>(device_);
  ASSERT_EQ(cudaFree(device_), cudaSuccess);
  PokeKernel(freed, 5);
  ExpectViolations({"device 0, allocation 1 (64 bytes): written after it was freed"});
}

TEST_F(MemoryTest, FreedMemoryIsNaNAgain) {
  ASSERT_EQ(cudaMemsetAsync(device_, 0, kBytes, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  ASSERT_EQ(cudaFree(device_), cudaSuccess);
  // Read as a kernel would that has kept the address; instrumented code would stop at it.
  const auto peek = [](const void* at) __attribute__((no_sanitize("address"))) {
    return *static_cast<const volatile uint8_t*>(at);
  };
  EXPECT_EQ(peek(device_), 0xFF);
}

TEST_F(MemoryTest, TheAddressSanitizerKnowsWhatIsOutside) {
  if (!__asan_address_is_poisoned) GTEST_SKIP() << "no address sanitizer";
  auto* const bytes = static_cast<std::byte*>(device_);
  EXPECT_EQ(__asan_address_is_poisoned(bytes - 1), 1);
  EXPECT_EQ(__asan_address_is_poisoned(bytes), 0);
  EXPECT_EQ(__asan_address_is_poisoned(bytes + kBytes - 1), 0);
  EXPECT_EQ(__asan_address_is_poisoned(bytes + kBytes), 1);
  ASSERT_EQ(cudaFree(device_), cudaSuccess);
  EXPECT_EQ(__asan_address_is_poisoned(bytes), 1);
}

TEST_F(MemoryTest, FreeWaitsForTheDevice) {
  float* const values = DeviceFloats({1});
  ASSERT_EQ(Launch(stream_, AddKernel, values, 1u, 1.0f), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(pinned_, values, 4, cudaMemcpyDeviceToHost, stream_), cudaSuccess);
  EXPECT_EQ(cudaFree(device_), cudaSuccess);
  EXPECT_EQ(*static_cast<float*>(pinned_), 2.0f);
}

TEST_F(MemoryTest, PageableSourcesAreReadAtTheCallAndPinnedOnesLater) {
  std::vector<float> pageable(kBytes / 4, 1.0f);
  auto* const pinned = static_cast<float*>(pinned_);
  std::fill_n(pinned, kBytes / 4, 1.0f);
  float* const other = DeviceFloats(std::vector<float>(kBytes / 4));
  ASSERT_EQ(Copy(device_, pageable.data(), cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(Copy(other, pinned_, cudaMemcpyHostToDevice), cudaSuccess);
  std::fill(pageable.begin(), pageable.end(), 2.0f);
  std::fill_n(pinned, kBytes / 4, 2.0f);
  EXPECT_THAT(Read(static_cast<float*>(device_), kBytes / 4, stream_), Each(1.0f));
  EXPECT_THAT(Read(other, kBytes / 4, stream_), Each(2.0f));
}

TEST_F(MemoryTest, CopiesReachOtherDevices) {
  float* const here = DeviceFloats({1, 2});
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  float* const there = DeviceFloats({0, 0});
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  ASSERT_EQ(Copy(there, here, cudaMemcpyDeviceToDevice, 8), cudaSuccess);
  EXPECT_THAT(Read(there, 2, stream_), ElementsAre(1.0f, 2.0f));
}

TEST_F(MemoryTest, KernelsReachTheirOwnDeviceAlone) {
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  float* const there = DeviceFloats({0});
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  ASSERT_EQ(Launch(stream_, AddKernel, there, 1u, 1.0f), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorIllegalAddress);
  ExpectViolations(
      {"stream 1: a kernel's argument on device 0 is in another device's memory: device 1, allocation 3 (4 "
       "bytes)"});
}

}  // namespace
}  // namespace fake_cuda
