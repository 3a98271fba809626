// Stream capture and graphs.
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/fake_cuda/machine.h"

using fake_cuda::Call;
using fake_cuda::Capture;
using fake_cuda::Graph;
using fake_cuda::GraphExec;
using fake_cuda::GraphRun;
using fake_cuda::KernelWork;
using fake_cuda::Lock;
using fake_cuda::Machine;
using fake_cuda::Needs;
using fake_cuda::Node;
using fake_cuda::Stream;

namespace {

bool IsMode(cudaStreamCaptureMode mode) {
  return mode == cudaStreamCaptureModeGlobal || mode == cudaStreamCaptureModeThreadLocal ||
         mode == cudaStreamCaptureModeRelaxed;
}

cudaError_t NoSuchGraph(Machine& machine, const char* function) {
  machine.Violate(absl::StrCat(function, ": a graph that does not exist"));
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return Call(__func__, Needs::kNothing, [&](Machine& machine, Lock&) {
    if (!mode || !IsMode(*mode)) return cudaErrorInvalidValue;
    std::swap(*mode, machine.capture_mode());
    return cudaSuccess;
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return Call(__func__, Needs::kContext, [&](Machine& machine, Lock&) {
    Stream* origin = nullptr;
    const cudaError_t error = machine.FindStream("cudaStreamBeginCapture", stream, &origin);
    if (error != cudaSuccess) return error;
    if (!IsMode(mode)) return cudaErrorInvalidValue;
    if (origin->capture) return cudaErrorIllegalState;
    auto capture = std::make_shared<Capture>();
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    capture->origin = origin;
    origin->capture = capture;
    machine.captures().insert(std::move(capture));
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* pGraph) {
  return Call(__func__, Needs::kContext, [&](Machine& machine, Lock&) {
    Stream* ending = nullptr;
    const cudaError_t error = machine.FindStream("cudaStreamEndCapture", stream, &ending);
    if (error != cudaSuccess) return error;
    if (!pGraph) return cudaErrorInvalidValue;
    *pGraph = nullptr;
    const std::shared_ptr<Capture> capture = ending->capture;
    if (!capture) return cudaErrorIllegalState;
    if (capture->origin != ending) {
      capture->invalidated = true;
      return cudaErrorStreamCaptureUnmatched;
    }
    if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id()) {
      return cudaErrorStreamCaptureWrongThread;
    }
    const bool unjoined = capture->HasUnjoined(ending->capture_tail);
    machine.EndCapture(capture);
    // An event may hold the capture for longer; it shall not hold the graph.
    std::unique_ptr<Graph> graph = std::move(capture->graph);
    if (capture->invalidated) return cudaErrorStreamCaptureInvalidated;
    if (unjoined) return cudaErrorStreamCaptureUnjoined;
    *pGraph = machine.AddGraph(std::move(graph));
    return cudaSuccess;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* pCaptureStatus) {
  return Call(__func__, Needs::kContext, [&](Machine& machine, Lock&) {
    Stream* found = nullptr;
    const cudaError_t error = machine.FindStream("cudaStreamIsCapturing", stream, &found);
    if (error != cudaSuccess) return error;
    if (!pCaptureStatus) return cudaErrorInvalidValue;
    *pCaptureStatus = !found->capture               ? cudaStreamCaptureStatusNone
                      : found->capture->invalidated ? cudaStreamCaptureStatusInvalidated
                                                    : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* pGraphExec, cudaGraph_t graph, unsigned long long flags) {
  return Call(__func__, Needs::kContext, [&](Machine& machine, Lock&) {
    const Graph* const found = machine.LiveGraph(graph);
    if (!found) return NoSuchGraph(machine, "cudaGraphInstantiate");
    if (!pGraphExec) return cudaErrorInvalidValue;
    if (flags != 0) {
      machine.Violate("cudaGraphInstantiate: the stand-in knows no flags");
      return cudaErrorNotSupported;
    }
    auto exec = std::make_shared<GraphExec>();
    for (const std::unique_ptr<Node>& node : found->nodes) exec->nodes.push_back(*node);
    *pGraphExec = machine.AddGraphExec(std::move(exec));
    return cudaSuccess;
  });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* numNodes) {
  return Call(__func__, Needs::kContext, [&](Machine& machine, Lock&) {
    const Graph* const found = machine.LiveGraph(graph);
    if (!found) return NoSuchGraph(machine, "cudaGraphGetNodes");
    if (!numNodes) return cudaErrorInvalidValue;
    const size_t room = *numNodes;
    *numNodes = found->nodes.size();
    if (!nodes) return cudaSuccess;
    *numNodes = std::min(room, found->nodes.size());
    for (size_t i = 0; i < room; ++i) {
      nodes[i] = i < *numNodes ? reinterpret_cast<cudaGraphNode_t>(found->nodes[i].get()) : nullptr;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* pType) {
  return Call(__func__, Needs::kContext, [&](Machine& machine, Lock&) {
    const Node* const found = machine.LiveNode(node);
    if (!found || !pType) return cudaErrorInvalidValue;
    *pType = found->work->type();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* pNodeParams) {
  return Call(__func__, Needs::kContext, [&](Machine& machine, Lock&) {
    const Node* const found = machine.LiveNode(node);
    if (!found || !pNodeParams || found->work->type() != cudaGraphNodeTypeKernel) return cudaErrorInvalidValue;
    auto* const kernel = dynamic_cast<KernelWork*>(found->work.get());
    if (!kernel) return cudaErrorInvalidDeviceFunction;  // a library's, which the runtime has no function for
    *pNodeParams = kernel->Params();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream) {
  return Call(__func__, Needs::kContext, [&](Machine& machine, Lock& lock) {
    Stream* on = nullptr;
    const cudaError_t error = machine.FindStream("cudaGraphLaunch", stream, &on);
    if (error != cudaSuccess) return error;
    const std::shared_ptr<GraphExec> exec = machine.LiveGraphExec(graphExec);
    if (!exec) return NoSuchGraph(machine, "cudaGraphLaunch");
    if (on->capture) {
      machine.Violate("cudaGraphLaunch: the stand-in captures no graph inside of another");
      on->capture->invalidated = true;
      return cudaErrorStreamCaptureUnsupported;
    }
    return machine.Enqueue(lock, on, std::make_shared<GraphRun>(*exec, on));
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream) {
  return Call(__func__, Needs::kContext, [&](Machine& machine, Lock&) {
    Stream* on = nullptr;
    const cudaError_t error = machine.FindStream("cudaGraphUpload", stream, &on);
    if (error != cudaSuccess) return error;
    return machine.LiveGraphExec(graphExec) ? cudaSuccess : NoSuchGraph(machine, "cudaGraphUpload");
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec) {
  return Call(__func__, Needs::kRelease, [&](Machine& machine, Lock&) {
    if (!machine.RemoveGraphExec(graphExec)) return NoSuchGraph(machine, "cudaGraphExecDestroy");
    return machine.DeviceError(machine.current_device());
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return Call(__func__, Needs::kRelease, [&](Machine& machine, Lock&) {
    if (!machine.RemoveGraph(graph)) return NoSuchGraph(machine, "cudaGraphDestroy");
    return machine.DeviceError(machine.current_device());
  });
}
