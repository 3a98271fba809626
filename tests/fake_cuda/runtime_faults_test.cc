// Everything that a test can make go wrong, and what it looks like afterwards.
#include <gmock/gmock.h>

#include <chrono>

#include "tests/fake_cuda/test_kernels.h"

namespace fake_cuda {
namespace {

using testing::ElementsAre;

class FaultsTest : public FakeCudaTest {
 protected:
  void SetUp() override {
    FakeCudaTest::SetUp();
    stream_ = NewStream();
    values_ = DeviceFloats({1});
  }

  cudaStream_t stream_ = nullptr;
  float* values_ = nullptr;
};

TEST_F(FaultsTest, TheNthCallFailsOnce) {
  FailCall({"cudaMalloc", 2, cudaErrorMemoryAllocation});
  void* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, 4), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&data, 4), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMalloc(&data, 4), cudaSuccess);
}

TEST_F(FaultsTest, TheNthCallAndAllLaterOnesFail) {
  FailCall({.function = "cudaEventRecord", .nth = 2, .error = cudaErrorUnknown, .forever = true});
  const cudaEvent_t event = NewEvent();
  EXPECT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, stream_), cudaErrorUnknown);
  EXPECT_EQ(cudaEventRecord(event, stream_), cudaErrorUnknown);
}

TEST_F(FaultsTest, TheNthCallOfAnyFunctionFails) {
  FailCall({"", 2, cudaErrorNotSupported});
  int device = 0;
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(stream_), cudaErrorNotSupported);
  EXPECT_EQ(cudaStreamQuery(stream_), cudaSuccess);
}

TEST_F(FaultsTest, AnIllegalAccessStays) {
  const cudaEvent_t event = NewEvent();
  FailWork({.stream = StreamNumber(stream_), .kernels_only = true, .nth = 2});
  ASSERT_EQ(Launch(stream_, AddKernel, values_, 1u, 1.0f), cudaSuccess);
  ASSERT_EQ(Launch(stream_, AddKernel, values_, 1u, 1.0f), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(event), cudaErrorIllegalAddress);

  void* data = nullptr;
  size_t bytes = 0;
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaMalloc(&data, 4), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaMemGetInfo(&bytes, &bytes), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaErrorIllegalAddress);
  EXPECT_EQ(Launch(stream_, AddKernel, values_, 1u, 1.0f), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaDeviceReset(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaSetDevice(0), cudaErrorIllegalAddress);

  // What is given back is not alive any more, although each call fails.
  EXPECT_EQ(cudaFree(values_), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaEventDestroy(event), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaStreamDestroy(stream_), cudaErrorIllegalAddress);
  EXPECT_EQ(LeakReport(), Alive());

  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  DeviceFloats({1});
}

TEST_F(FaultsTest, AFaultIsSeenWhereTheKernelRunsAndNotWhereItIsLaunched) {
  FailWork({.kernels_only = true, .error = cudaErrorMisalignedAddress});
  ASSERT_EQ(Launch(stream_, AddKernel, values_, 1u, 1.0f), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(stream_), cudaErrorMisalignedAddress);
}

TEST_F(FaultsTest, TheNthNodeOfGraphsFails) {
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(Launch(stream_, AddKernel, values_, 1u, 1.0f), cudaSuccess);
  ASSERT_EQ(Launch(stream_, AddKernel, values_, 1u, 1.0f), cudaSuccess);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  FailWork({.device = 0, .kernels_only = true, .nth = 4, .error = cudaErrorLaunchFailure});
  ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorLaunchFailure);
}

TEST_F(FaultsTest, ADelayedItemComesAfterSoManyQueries) {
  FailWork({.stream = StreamNumber(stream_), .outcome = WorkFault::Outcome::kDelay, .delay = 3});
  ASSERT_EQ(Launch(stream_, AddKernel, values_, 1u, 1.0f), cudaSuccess);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cudaStreamQuery(stream_), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamQuery(stream_), cudaSuccess);
}

TEST_F(FaultsTest, ADelayedItemHoldsItsStreamAlone) {
  FailWork({.stream = StreamNumber(stream_), .outcome = WorkFault::Outcome::kDelay, .delay = 1000});
  ASSERT_EQ(Launch(stream_, AddKernel, values_, 1u, 1.0f), cudaSuccess);
  const cudaStream_t other = NewStream();
  ASSERT_EQ(Launch(other, ScaleKernel, values_, 1u, 10.0f), cudaSuccess);
  EXPECT_THAT(Read(values_, 1, other), ElementsAre(10.0f));
  EXPECT_EQ(cudaStreamQuery(stream_), cudaErrorNotReady);
}

TEST_F(FaultsTest, AnItemThatNeverEndsHangsWhoWaitsForIt) {
  Options options;
  options.hang_limit = std::chrono::milliseconds(50);
  Restart(options);
  stream_ = NewStream();
  const cudaEvent_t event = NewEvent();
  void* data = nullptr;
  ASSERT_EQ(cudaMalloc(&data, 4), cudaSuccess);
  FailWork({.outcome = WorkFault::Outcome::kNever});
  ASSERT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorLaunchTimeout);
  EXPECT_EQ(cudaEventSynchronize(event), cudaErrorLaunchTimeout);
  EXPECT_EQ(cudaFree(data), cudaErrorLaunchTimeout);
  EXPECT_EQ(LeakReport().device_allocations, 1u);
  const std::string stuck = " would wait for ever: stream 1 at an event's record";
  ExpectViolations({"cudaStreamSynchronize" + stuck, "cudaEventSynchronize" + stuck, "cudaFree" + stuck});
}

TEST_F(FaultsTest, AKernelsOwnErrorIsALaunchFailure) {
  ASSERT_EQ(Launch(stream_, FailingKernel, values_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorLaunchFailure);
  ExpectViolations({"a kernel failed: thread 3 read what nobody wrote"});
}

TEST_F(FaultsTest, ALostDevicesWorkIsDropped) {
  FailWork({.kernels_only = true});
  const cudaStream_t other = NewStream();
  bool ran = false;
  ASSERT_EQ(Launch(stream_, AddKernel, values_, 1u, 1.0f), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(
                other, [](void* flag) { *static_cast<bool*>(flag) = true; }, &ran),
            cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaStreamSynchronize(other), cudaErrorIllegalAddress);
  EXPECT_FALSE(ran);
}

TEST_F(FaultsTest, ResetForgetsEverything) {
  FailCall({"cudaGetDevice", 1, cudaErrorUnknown});
  FailWork({.kernels_only = true});
  ASSERT_EQ(Launch(stream_, AddKernel, values_, 1u, 1.0f), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaMemsetAsync(values_, 0, 4, nullptr), cudaErrorIllegalAddress);
  Reset();
  EXPECT_EQ(LeakReport(), Alive());
  EXPECT_EQ(CallLog(), std::vector<std::string>());
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  int device = 0;
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  stream_ = NewStream();
  values_ = DeviceFloats({1});
  ASSERT_EQ(Launch(stream_, AddKernel, values_, 1u, 1.0f), cudaSuccess);  // still registered
  EXPECT_THAT(Read(values_, 1, stream_), ElementsAre(2.0f));
}

}  // namespace
}  // namespace fake_cuda
