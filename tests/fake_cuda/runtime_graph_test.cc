#include <gmock/gmock.h>

#include <functional>
#include <set>
#include <thread>

#include "tests/fake_cuda/test_kernels.h"

namespace fake_cuda {
namespace {

using testing::ElementsAre;

class GraphTest : public FakeCudaTest {
 protected:
  void SetUp() override {
    FakeCudaTest::SetUp();
    stream_ = NewStream();
    values_ = DeviceFloats({1});
  }

  void Begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
    ASSERT_EQ(cudaStreamBeginCapture(stream_, mode), cudaSuccess);
  }
  cudaGraph_t End() {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    return graph;
  }
  cudaGraphExec_t Instantiate(cudaGraph_t graph) {
    cudaGraphExec_t exec = nullptr;
    EXPECT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    return exec;
  }
  // Ends a capture that went wrong.
  void EndsWith(cudaError_t error) {
    auto graph = reinterpret_cast<cudaGraph_t>(16);
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), error);
    EXPECT_EQ(graph, nullptr);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
    EXPECT_EQ(cudaStreamIsCapturing(stream_, &status), cudaSuccess);
    EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  }

  // values_ = 1 and a capture: + 1 on stream_, * 10 on fork_, which joined_ comes after.
  void SetUpFork() {
    stream_ = NewStream();
    fork_ = NewStream();
    values_ = DeviceFloats({1});
    const cudaEvent_t forked = NewEvent();
    joined_ = NewEvent();
    Begin();
    ASSERT_EQ(cudaEventRecord(forked, stream_), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(fork_, forked, 0), cudaSuccess);
    ASSERT_EQ(Launch(stream_, AddKernel, values_, 1u, 1.0f), cudaSuccess);
    ASSERT_EQ(Launch(fork_, ScaleKernel, values_, 1u, 10.0f), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(joined_, fork_), cudaSuccess);
  }

  cudaStream_t stream_ = nullptr;
  cudaStream_t fork_ = nullptr;
  cudaEvent_t joined_ = nullptr;
  float* values_ = nullptr;
};

TEST_F(GraphTest, WhatIsCapturedRunsAtEveryLaunchAndNotBefore) {
  Begin();
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  EXPECT_EQ(cudaStreamIsCapturing(stream_, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  ASSERT_EQ(Launch(stream_, AddKernel, values_, 1u, 1.0f), cudaSuccess);
  ASSERT_EQ(Launch(stream_, ScaleKernel, values_, 1u, 10.0f), cudaSuccess);
  const cudaGraph_t graph = End();
  const cudaGraphExec_t exec = Instantiate(graph);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_THAT(Read(values_, 1, stream_), ElementsAre(1.0f));
  EXPECT_EQ(cudaGraphUpload(exec, stream_), cudaSuccess);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);  // launches run all the same
  EXPECT_THAT(Read(values_, 1, stream_), ElementsAre(210.0f));
  Alive alive = LeakReport();
  EXPECT_EQ(alive.graphs, 0u);
  EXPECT_EQ(alive.graph_execs, 0u);
}

TEST_F(GraphTest, NodesTellTheirKindsAndParameters) {
  void* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, 4), cudaSuccess);
  Begin();
  ASSERT_EQ(Launch(stream_, AddKernel, values_, 1u, 3.0f), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(pinned, values_, 4, cudaMemcpyDeviceToHost, stream_), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(values_, 0, 4, stream_), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(
                stream_, [](void*) {}, nullptr),
            cudaSuccess);
  const cudaGraph_t graph = End();

  size_t count = 0;
  ASSERT_EQ(cudaGraphGetNodes(graph, nullptr, &count), cudaSuccess);
  ASSERT_EQ(count, 4u);
  std::vector<cudaGraphNode_t> nodes(count);
  ASSERT_EQ(cudaGraphGetNodes(graph, nodes.data(), &count), cudaSuccess);
  std::vector<cudaGraphNodeType> types(count);
  for (size_t i = 0; i < count; ++i) EXPECT_EQ(cudaGraphNodeGetType(nodes[i], &types[i]), cudaSuccess);
  EXPECT_THAT(types, ElementsAre(cudaGraphNodeTypeKernel, cudaGraphNodeTypeMemcpy, cudaGraphNodeTypeMemset,
                                 cudaGraphNodeTypeHost));
  cudaKernelNodeParams params = {};
  ASSERT_EQ(cudaGraphKernelNodeGetParams(nodes[0], &params), cudaSuccess);
  EXPECT_EQ(params.func, KernelAddress(AddKernel));
  EXPECT_EQ(params.gridDim.x, 1u);
  EXPECT_EQ(*static_cast<float**>(params.kernelParams[0]), values_);
  EXPECT_EQ(*static_cast<float*>(params.kernelParams[2]), 3.0f);
  EXPECT_EQ(cudaGraphKernelNodeGetParams(nodes[1], &params), cudaErrorInvalidValue);
}

TEST_F(GraphTest, CapturedStreamsForkAndJoin) {
  std::set<float> results;
  for (uint64_t seed = 1; seed < 30; ++seed) {
    Options options;
    options.seed = seed;
    Restart(options);
    SetUpFork();
    ASSERT_EQ(cudaStreamWaitEvent(stream_, joined_, 0), cudaSuccess);
    ASSERT_EQ(Launch(stream_, AddKernel, values_, 1u, 100.0f), cudaSuccess);
    ASSERT_EQ(cudaGraphLaunch(Instantiate(End()), stream_), cudaSuccess);
    results.insert(Read(values_, 1, stream_).at(0));
  }
  // The two branches in both orders, the join after both.
  EXPECT_EQ(results, std::set<float>({111, 120}));
}

TEST_F(GraphTest, AForkThatIsNotJoinedIsNoGraph) {
  SetUpFork();
  EndsWith(cudaErrorStreamCaptureUnjoined);
}

TEST_F(GraphTest, ACaptureEndsWhereItBegan) {
  SetUpFork();
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(fork_, &graph), cudaErrorStreamCaptureUnmatched);
  EndsWith(cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorIllegalState);
}

TEST_F(GraphTest, ACaptureEndsInTheThreadThatBeganIt) {
  Begin();
  std::thread([this] {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureWrongThread);
  }).join();
  End();
  Begin(cudaStreamCaptureModeRelaxed);
  std::thread([this] { End(); }).join();
}

TEST_F(GraphTest, AStreamIsCapturedOnce) {
  Begin();
  EXPECT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), cudaErrorIllegalState);
  End();
}

TEST_F(GraphTest, CallsThatACaptureForbidsInvalidateIt) {
  void* data = nullptr;
  const cudaStream_t other = NewStream();
  const cudaEvent_t event = NewEvent();
  const std::vector<std::function<cudaError_t()>> forbidden = {
      [&] { return cudaMalloc(&data, 4); },           [&] { return cudaFree(values_); },
      [&] { return cudaMallocHost(&data, 4); },       [&] { return cudaHostAlloc(&data, 4, cudaHostAllocDefault); },
      [&] { return cudaStreamSynchronize(stream_); }, [&] { return cudaStreamQuery(stream_); },
      [&] { return cudaStreamSynchronize(other); },   [&] { return cudaEventQuery(event); },
      [&] { return cudaEventSynchronize(event); },    [&] { return cudaDeviceSynchronize(); },
  };
  for (const auto& call : forbidden) {
    Begin();
    ASSERT_EQ(Launch(stream_, AddKernel, values_, 1u, 1.0f), cudaSuccess);
    EXPECT_EQ(call(), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(Launch(stream_, AddKernel, values_, 1u, 1.0f), cudaErrorStreamCaptureInvalidated);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    EXPECT_EQ(cudaStreamIsCapturing(stream_, &status), cudaSuccess);
    EXPECT_EQ(status, cudaStreamCaptureStatusInvalidated);
    EndsWith(cudaErrorStreamCaptureInvalidated);
  }
}

TEST_F(GraphTest, AskingForWhatIsCapturedInvalidatesARelaxedCapture) {
  const cudaEvent_t event = NewEvent();
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  ASSERT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  Begin(cudaStreamCaptureModeRelaxed);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorStreamCaptureUnsupported);
  EndsWith(cudaErrorStreamCaptureInvalidated);
  Begin(cudaStreamCaptureModeRelaxed);
  ASSERT_EQ(cudaEventRecord(event, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorCapturedEvent);
  EndsWith(cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
}

TEST_F(GraphTest, TheCapturesModeSaysWhomItForbids) {
  struct Case {
    cudaStreamCaptureMode capture;
    cudaStreamCaptureMode thread;
    bool same_thread;
    bool allowed;
  };
  constexpr cudaStreamCaptureMode kGlobal = cudaStreamCaptureModeGlobal;
  constexpr cudaStreamCaptureMode kLocal = cudaStreamCaptureModeThreadLocal;
  constexpr cudaStreamCaptureMode kRelaxed = cudaStreamCaptureModeRelaxed;
  const std::vector<Case> cases = {
      {kGlobal, kGlobal, true, false},  {kGlobal, kGlobal, false, false}, {kGlobal, kLocal, false, true},
      {kGlobal, kRelaxed, true, true},  {kLocal, kGlobal, true, false},   {kLocal, kGlobal, false, true},
      {kLocal, kLocal, true, false},    {kLocal, kRelaxed, true, true},   {kRelaxed, kGlobal, true, true},
      {kRelaxed, kGlobal, false, true},
  };
  for (const Case& one : cases) {
    Begin(one.capture);
    const auto allocate = [&one] {
      cudaStreamCaptureMode mode = one.thread;
      EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
      void* data = nullptr;
      EXPECT_EQ(cudaMalloc(&data, 4), one.allowed ? cudaSuccess : cudaErrorStreamCaptureUnsupported);
      EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
      EXPECT_EQ(mode, one.thread);
    };
    if (one.same_thread) {
      allocate();
    } else {
      std::thread(allocate).join();
    }
    if (one.allowed) {
      End();
    } else {
      EndsWith(cudaErrorStreamCaptureInvalidated);
    }
  }
}

TEST_F(GraphTest, CapturesDoNotMix) {
  const cudaStream_t other = NewStream();
  const cudaEvent_t outside = NewEvent();
  const cudaEvent_t inside = NewEvent();
  ASSERT_EQ(cudaEventRecord(outside, other), cudaSuccess);
  Begin();
  EXPECT_EQ(cudaStreamWaitEvent(stream_, outside, 0), cudaErrorStreamCaptureIsolation);
  EndsWith(cudaErrorStreamCaptureInvalidated);

  Begin();
  ASSERT_EQ(cudaEventRecord(inside, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(inside), cudaErrorStreamCaptureUnsupported);
  EndsWith(cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaEventQuery(inside), cudaErrorCapturedEvent);
  EXPECT_EQ(cudaStreamWaitEvent(other, inside, 0), cudaErrorCapturedEvent);

  Begin();
  ASSERT_EQ(cudaEventRecord(inside, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(other, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(other, inside, 0), cudaErrorStreamCaptureMerge);
  EndsWith(cudaErrorStreamCaptureInvalidated);
}

TEST_F(GraphTest, MemoryThatWasFreedIsFoundAtReplay) {
  void* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, 4), cudaSuccess);
  Begin();
  ASSERT_EQ(Launch(stream_, AddKernel, values_, 1u, 1.0f), cudaSuccess);
  const cudaGraphExec_t kernel = Instantiate(End());
  Begin();
  ASSERT_EQ(cudaMemcpyAsync(values_, pinned, 4, cudaMemcpyHostToDevice, stream_), cudaSuccess);
  const cudaGraphExec_t copy = Instantiate(End());
  ASSERT_EQ(cudaGraphLaunch(copy, stream_), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(kernel, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  ASSERT_EQ(cudaFreeHost(pinned), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(copy, stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorIllegalAddress);
  ExpectViolations({"stream 1: a copy's source is in memory that was freed: allocation 2"});
}

TEST_F(GraphTest, AKernelsMemoryThatWasFreedIsFoundAtReplay) {
  Begin();
  ASSERT_EQ(Launch(stream_, AddKernel, values_, 1u, 1.0f), cudaSuccess);
  const cudaGraphExec_t kernel = Instantiate(End());
  ASSERT_EQ(cudaFree(values_), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(kernel, stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorIllegalAddress);
  ExpectViolations({"stream 1: a kernel's argument is in memory that was freed: allocation 1"});
}

TEST_F(GraphTest, RunsOfOneGraphDoNotOverlap) {
  for (uint64_t seed = 1; seed < 20; ++seed) {
    Options options;
    options.seed = seed;
    Restart(options);
    stream_ = NewStream();
    values_ = DeviceFloats({1});
    const cudaStream_t other = NewStream();
    Begin();
    ASSERT_EQ(Launch(stream_, AddKernel, values_, 1u, 1.0f), cudaSuccess);
    ASSERT_EQ(Launch(stream_, ScaleKernel, values_, 1u, 10.0f), cudaSuccess);
    const cudaGraphExec_t exec = Instantiate(End());
    ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
    ASSERT_EQ(cudaGraphLaunch(exec, other), cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_THAT(Read(values_, 1, stream_), ElementsAre(210.0f));
  }
}

TEST_F(GraphTest, WhatIsNotImitatedIsTold) {
  Begin();
  const cudaGraph_t graph = End();
  cudaGraphExec_t exec = nullptr;
  EXPECT_EQ(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagUpload), cudaErrorNotSupported);
  exec = Instantiate(graph);
  Begin();
  EXPECT_EQ(cudaGraphLaunch(exec, stream_), cudaErrorStreamCaptureUnsupported);
  EndsWith(cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaErrorInvalidValue);
  ExpectViolations({"cudaGraphInstantiate: the stand-in knows no flags",
                    "cudaGraphLaunch: the stand-in captures no graph inside of another",
                    "cudaGraphInstantiate: a graph that does not exist"});
}

}  // namespace
}  // namespace fake_cuda
