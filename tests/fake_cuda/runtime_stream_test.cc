#include <gmock/gmock.h>

#include <set>
#include <thread>

#include "tests/fake_cuda/test_kernels.h"

namespace fake_cuda {
namespace {

using testing::ElementsAre;

class StreamTest : public FakeCudaTest {
 protected:
  Options Seeded(uint64_t seed) {
    Options options{{Device(), Device()}};
    options.seed = seed;
    return options;
  }
};

void SetTrue(void* flag) { *static_cast<bool*>(flag) = true; }

TEST_F(StreamTest, WorkIsDeferredAndRunsInOrder) {
  float* const values = DeviceFloats({1});
  const cudaStream_t stream = NewStream();
  bool ran = false;
  ASSERT_EQ(Launch(stream, AddKernel, values, 1u, 2.0f), cudaSuccess);
  ASSERT_EQ(Launch(stream, ScaleKernel, values, 1u, 10.0f), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(stream, SetTrue, &ran), cudaSuccess);
  EXPECT_FALSE(ran);
  EXPECT_THAT(Read(values, 1, stream), ElementsAre(30.0f));
  EXPECT_TRUE(ran);
}

TEST_F(StreamTest, QueriesMoveTheWorkOn) {
  const cudaStream_t stream = NewStream();
  const cudaEvent_t event = NewEvent();
  bool ran = false;
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);  // never recorded
  ASSERT_EQ(cudaLaunchHostFunc(stream, SetTrue, &ran), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
  EXPECT_TRUE(ran);
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
}

// What two streams give without an event between them, over seeds.
TEST_F(StreamTest, AMissingDependencyShowsAndAnEventHeals) {
  for (const bool ordered : {false, true}) {
    std::set<float> results;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      Restart(Seeded(seed));
      float* const values = DeviceFloats({1});
      const cudaStream_t first = NewStream();
      const cudaStream_t second = NewStream();
      const cudaEvent_t event = NewEvent();
      ASSERT_EQ(Launch(first, AddKernel, values, 1u, 1.0f), cudaSuccess);
      ASSERT_EQ(cudaEventRecord(event, first), cudaSuccess);
      if (ordered) {
        ASSERT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
      }
      ASSERT_EQ(Launch(second, ScaleKernel, values, 1u, 10.0f), cudaSuccess);
      ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      results.insert(Read(values, 1, first).at(0));
    }
    EXPECT_EQ(results, ordered ? std::set<float>({20}) : std::set<float>({11, 20}));
  }
}

TEST_F(StreamTest, WithASeedWorkMayRunBeforeAnybodyAsks) {
  std::set<bool> early;
  for (uint64_t seed = 1; seed < 30; ++seed) {
    Restart(Seeded(seed));
    const cudaStream_t stream = NewStream();
    bool ran = false;
    ASSERT_EQ(cudaLaunchHostFunc(stream, SetTrue, &ran), cudaSuccess);
    early.insert(ran);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_TRUE(ran);
  }
  EXPECT_EQ(early, std::set<bool>({false, true}));
}

TEST_F(StreamTest, ASeedGivesTheSameRunAgain) {
  std::vector<float> results[2];
  for (std::vector<float>& result : results) {
    for (uint64_t seed = 1; seed < 30; ++seed) {
      Restart(Seeded(seed));
      float* const values = DeviceFloats({1});
      const cudaStream_t first = NewStream();
      const cudaStream_t second = NewStream();
      for (int i = 0; i < 4; ++i) {
        ASSERT_EQ(Launch(first, AddKernel, values, 1u, 1.0f), cudaSuccess);
        ASSERT_EQ(Launch(second, ScaleKernel, values, 1u, 2.0f), cudaSuccess);
      }
      ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      result.push_back(Read(values, 1, first).at(0));
    }
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST_F(StreamTest, AnEventIsWhatWasRecordedLast) {
  const cudaStream_t first = NewStream();
  const cudaStream_t second = NewStream();
  const cudaEvent_t event = NewEvent();
  ASSERT_EQ(cudaEventRecord(event, first), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);  // for the first record, not for the next
  FailWork({.stream = StreamNumber(first), .nth = 2, .outcome = WorkFault::Outcome::kDelay, .delay = 5});
  ASSERT_EQ(cudaEventRecord(event, first), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
}

TEST_F(StreamTest, EventsHaveTimes) {
  const cudaStream_t stream = NewStream();
  cudaEvent_t start = nullptr;
  cudaEvent_t end = nullptr;
  float ms = -1;
  ASSERT_EQ(cudaEventCreateWithFlags(&start, cudaEventDefault), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&end, cudaEventDefault), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(start, stream), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&ms, start, end), cudaErrorInvalidResourceHandle);
  ASSERT_EQ(cudaEventRecord(end, stream), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&ms, start, end), cudaErrorNotReady);
  ASSERT_EQ(cudaEventSynchronize(end), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&ms, start, end), cudaSuccess);
  EXPECT_GE(ms, 0.0f);
  const cudaEvent_t untimed = NewEvent();
  ASSERT_EQ(cudaEventRecord(untimed, stream), cudaSuccess);
  ASSERT_EQ(cudaEventSynchronize(untimed), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&ms, start, untimed), cudaErrorInvalidResourceHandle);
}

TEST_F(StreamTest, DefaultStreamsAreRefused) {
  float* const values = DeviceFloats({1});
  EXPECT_EQ(Launch(nullptr, AddKernel, values, 1u, 1.0f), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaMemsetAsync(values, 0, 4, cudaStreamLegacy), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamSynchronize(cudaStreamPerThread), cudaErrorInvalidResourceHandle);
  ExpectViolations({"cudaLaunchKernelExC: a default stream", "cudaMemsetAsync: a default stream",
                    "cudaStreamSynchronize: a default stream"});
}

TEST_F(StreamTest, DestroyedThingsAreGoneAndTheirWorkStillRuns) {
  float* const values = DeviceFloats({1});
  const cudaStream_t stream = NewStream();
  const cudaStream_t other = NewStream();
  const cudaEvent_t event = NewEvent();
  ASSERT_EQ(Launch(stream, AddKernel, values, 1u, 1.0f), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(other, event, 0), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_THAT(Read(values, 1, other), ElementsAre(2.0f));
  EXPECT_EQ(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(event, other), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamWaitEvent(other, event, 0), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventDestroy(event), cudaErrorInvalidResourceHandle);
  ExpectViolations({"cudaStreamDestroy: a stream that does not exist", "cudaEventQuery: an event that does not exist",
                    "cudaEventRecord: an event that does not exist",
                    "cudaStreamWaitEvent: an event that does not exist",
                    "cudaEventDestroy: an event that does not exist"});
}

TEST_F(StreamTest, AnEventIsRecordedOnItsOwnDevice) {
  const cudaEvent_t event = NewEvent();
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  const cudaStream_t stream = NewStream();
  EXPECT_EQ(cudaEventRecord(event, stream), cudaErrorInvalidResourceHandle);
}

TEST_F(StreamTest, ArgumentsAreCopiedAtTheLaunch) {
  float* values = DeviceFloats({1});
  float* const kept = values;
  uint32_t count = 1;
  float by = 1;
  void* arguments[] = {&values, &count, &by};
  const cudaStream_t stream = NewStream();
  ASSERT_EQ(cudaLaunchKernel(KernelAddress(AddKernel), dim3(1), dim3(1), arguments, 0, stream), cudaSuccess);
  values = nullptr;
  count = 0;
  by = 100;
  EXPECT_THAT(Read(kept, 1, stream), ElementsAre(2.0f));
}

TEST_F(StreamTest, LaunchesAreChecked) {
  float* const values = DeviceFloats({1});
  const cudaStream_t stream = NewStream();
  uint32_t count = 1;
  float by = 1;
  void* arguments[] = {const_cast<float**>(&values), &count, &by};
  const void* const kernel = KernelAddress(AddKernel);
  const auto launch = [&](dim3 grid, dim3 block, size_t shared) {
    return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
  };
  EXPECT_EQ(launch(dim3(0), dim3(1), 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(dim3(1, 65536), dim3(1), 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(dim3(1), dim3(1025), 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(dim3(1), dim3(32, 33), 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(dim3(1), dim3(1024), 48 << 10), cudaSuccess);
  EXPECT_EQ(launch(dim3(1), dim3(1), (48 << 10) + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10), cudaSuccess);
  EXPECT_EQ(launch(dim3(1), dim3(1), 200 << 10), cudaSuccess);
  cudaFuncAttributes attributes;
  EXPECT_EQ(cudaFuncGetAttributes(&attributes, kernel), cudaSuccess);
  EXPECT_EQ(attributes.maxDynamicSharedSizeBytes, 200 << 10);
  EXPECT_EQ(attributes.binaryVersion, 90);

  int unknown = 0;
  EXPECT_EQ(cudaLaunchKernel(&unknown, dim3(1), dim3(1), arguments, 0, stream), cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(cudaFuncGetAttributes(&attributes, &unknown), cudaErrorInvalidDeviceFunction);

  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  cudaLaunchConfig_t config = {};
  config.gridDim = config.blockDim = dim3(1);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  EXPECT_EQ(cudaLaunchKernelExC(&config, kernel, arguments), cudaErrorNotSupported);
  ExpectViolations({"cudaLaunchKernelExC: the stand-in does not know launch attribute 6"});
}

bool RunAddLater(const void*, dim3, dim3, size_t, void** args, uint64_t, std::string*) {
  **static_cast<float**>(args[0]) += 1;
  return true;
}

bool known_now = false;
std::vector<size_t> BytesWhenKnown(const void*) {
  return known_now ? std::vector<size_t>({sizeof(float*)}) : std::vector<size_t>();
}

TEST_F(StreamTest, AKernelMayGetKnownWhenItIsLaunched) {
  static const int kernel = 0;
  float* values = DeviceFloats({1});
  void* arguments[] = {&values};
  const cudaStream_t stream = NewStream();
  constexpr auto kSharedSize = cudaFuncAttributeMaxDynamicSharedMemorySize;
  EXPECT_EQ(cudaFuncSetAttribute(&kernel, kSharedSize, 100 << 10), cudaErrorInvalidDeviceFunction);
  SetKernelLookup(BytesWhenKnown);
  SetKernelRunner(RunAddLater);
  EXPECT_EQ(cudaFuncSetAttribute(&kernel, kSharedSize, 100 << 10), cudaSuccess);
  EXPECT_EQ(cudaLaunchKernel(&kernel, dim3(1), dim3(1), arguments, 0, stream), cudaErrorInvalidDeviceFunction);
  known_now = true;
  EXPECT_EQ(cudaLaunchKernel(&kernel, dim3(1), dim3(1), arguments, 100 << 10, stream), cudaSuccess);
  EXPECT_THAT(Read(values, 1, stream), ElementsAre(2.0f));
  SetKernelLookup(nullptr);
}

std::set<uint64_t> seeds_seen;
bool KeepSeed(const void*, dim3, dim3, size_t, void**, uint64_t seed, std::string*) {
  seeds_seen.insert(seed);
  return true;
}

TEST_F(StreamTest, KernelsGetSeedsOfTheirOwnFromTheMachines) {
  for (const uint64_t seed : {uint64_t{0}, uint64_t{3}}) {
    Restart(Seeded(seed));
    SetKernelRunner(KeepSeed);
    seeds_seen.clear();
    float* const values = DeviceFloats({1});
    const cudaStream_t stream = NewStream();
    for (int i = 0; i < 3; ++i) ASSERT_EQ(Launch(stream, AddKernel, values, 1u, 1.0f), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(seeds_seen.size(), seed == 0 ? 1u : 3u);
    EXPECT_EQ(seeds_seen.count(0), seed == 0 ? 1u : 0u);
  }
}

TEST_F(StreamTest, WithoutARunnerNoKernelRuns) {
  SetKernelRunner(nullptr);
  float* const values = DeviceFloats({1});
  const cudaStream_t stream = NewStream();
  ASSERT_EQ(Launch(stream, AddKernel, values, 1u, 1.0f), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorLaunchFailure);
  ExpectViolations({"a kernel was launched, and no kernel runner is installed"});
}

TEST_F(StreamTest, StreamsTakeFlagsAndPriorities) {
  int least = -1;
  int greatest = 0;
  EXPECT_EQ(cudaDeviceGetStreamPriorityRange(&least, &greatest), cudaSuccess);
  EXPECT_EQ(least, 0);
  EXPECT_LT(greatest, 0);
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest), cudaSuccess);
  EXPECT_EQ(StreamNumber(stream), 1u);
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, 2), cudaErrorInvalidValue);
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventInterprocess), cudaErrorInvalidValue);
}

void CallCuda(void* error) {
  int device = 0;
  *static_cast<cudaError_t*>(error) = cudaGetDevice(&device);
}

TEST_F(StreamTest, HostFunctionsMayNotCallCuda) {
  const cudaStream_t stream = NewStream();
  cudaError_t error = cudaSuccess;
  ASSERT_EQ(cudaLaunchHostFunc(stream, CallCuda, &error), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(error, cudaErrorNotPermitted);
  ExpectViolations({"cudaGetDevice: called from a host function of a stream"});
}

TEST_F(StreamTest, ThreadsShareTheMachine) {
  Restart(Seeded(5));
  std::vector<std::thread> threads;
  for (int device = 0; device < 2; ++device) {
    threads.emplace_back([this, device] {
      ASSERT_EQ(cudaSetDevice(device), cudaSuccess);
      float* const values = DeviceFloats({0});
      const cudaStream_t stream = NewStream();
      for (int i = 0; i < 50; ++i) ASSERT_EQ(Launch(stream, AddKernel, values, 1u, 1.0f), cudaSuccess);
      EXPECT_THAT(Read(values, 1, stream), ElementsAre(50.0f));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace fake_cuda
