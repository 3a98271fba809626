// Streams and events.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/fake_cuda/machine.h"

using fake_cuda::Call;
using fake_cuda::Capture;
using fake_cuda::Event;
using fake_cuda::EventRecord;
using fake_cuda::Lock;
using fake_cuda::Machine;
using fake_cuda::Needs;
using fake_cuda::RecordWork;
using fake_cuda::Stream;
using fake_cuda::WaitWork;

namespace {

cudaError_t CreateStream(Machine& machine, cudaStream_t* stream, unsigned int flags) {
  if (!stream || flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
  *stream = reinterpret_cast<cudaStream_t>(machine.AddStream(machine.current_device()));
  return cudaSuccess;
}

// The stream of a call that must not be made while the stream is captured.
cudaError_t FindUncaptured(Machine& machine, const char* function, cudaStream_t handle, Stream** stream) {
  const cudaError_t error = machine.FindStream(function, handle, stream);
  if (error != cudaSuccess || !(*stream)->capture) return error;
  (*stream)->capture->invalidated = true;
  return cudaErrorStreamCaptureUnsupported;
}

// The event of a call that asks how far it is.
cudaError_t FindAsked(Machine& machine, const char* function, cudaEvent_t handle, Event** event) {
  *event = machine.LiveEvent(handle);
  if (!*event) {
    machine.Violate(absl::StrCat(function, ": an event that does not exist"));
    return cudaErrorInvalidResourceHandle;
  }
  if ((*event)->capture) {
    (*event)->capture->invalidated = true;
    return cudaErrorCapturedEvent;
  }
  return machine.DeviceError((*event)->device);
}

// A captured event orders the stream inside of the event's capture, which the stream may join.
cudaError_t WaitInCapture(Machine& machine, Stream* stream, const Event& event) {
  if (machine.captures().count(event.capture) == 0) return cudaErrorCapturedEvent;
  if (stream->capture && stream->capture != event.capture) {
    stream->capture->invalidated = event.capture->invalidated = true;
    return cudaErrorStreamCaptureMerge;
  }
  if (event.capture->invalidated) return cudaErrorStreamCaptureInvalidated;
  stream->capture = event.capture;
  for (const size_t node : event.capture_tail) {
    std::vector<size_t>& tail = stream->capture_tail;
    if (std::find(tail.begin(), tail.end(), node) == tail.end()) tail.push_back(node);
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* pStream, unsigned int flags) {
  return Call(__func__, Needs::kContext,
              [&](Machine& machine, Lock&) { return CreateStream(machine, pStream, flags); });
}

// Priorities are hints; the order of streams is the seed's.
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* pStream, unsigned int flags, int) {
  return Call(__func__, Needs::kContext,
              [&](Machine& machine, Lock&) { return CreateStream(machine, pStream, flags); });
}

// What is queued still runs.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return Call(__func__, Needs::kRelease, [&](Machine& machine, Lock&) {
    Stream* found = nullptr;
    const cudaError_t error = machine.FindStream("cudaStreamDestroy", stream, &found);
    if (!found) return error;
    if (found->capture) found->capture->invalidated = true;
    found->alive = false;
    return error;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return Call(__func__, Needs::kContextOutside, [&](Machine& machine, Lock& lock) {
    Stream* found = nullptr;
    const cudaError_t error = FindUncaptured(machine, "cudaStreamSynchronize", stream, &found);
    if (error != cudaSuccess) return error;
    const auto idle = [&] { return machine.StreamIsIdle(*found); };
    if (!machine.RunUntil(lock, idle, "cudaStreamSynchronize")) return cudaErrorLaunchTimeout;
    machine.CheckGuards();
    return machine.DeviceError(found->device);
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return Call(__func__, Needs::kContextOutside, [&](Machine& machine, Lock& lock) {
    Stream* found = nullptr;
    const cudaError_t error = FindUncaptured(machine, "cudaStreamQuery", stream, &found);
    if (error != cudaSuccess) return error;
    machine.Poll(lock);
    const cudaError_t lost = machine.DeviceError(found->device);
    return lost != cudaSuccess || machine.StreamIsIdle(*found) ? lost : cudaErrorNotReady;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  return Call(__func__, Needs::kContext, [&](Machine& machine, Lock& lock) {
    Stream* waiting = nullptr;
    const cudaError_t error = machine.FindStream("cudaStreamWaitEvent", stream, &waiting);
    if (error != cudaSuccess) return error;
    Event* const found = machine.LiveEvent(event);
    if (!found) {
      machine.Violate("cudaStreamWaitEvent: an event that does not exist");
      return cudaErrorInvalidResourceHandle;
    }
    if (flags != cudaEventWaitDefault) return cudaErrorInvalidValue;
    if (found->capture) return WaitInCapture(machine, waiting, *found);
    if (!found->record) return cudaSuccess;
    if (waiting->capture) {
      waiting->capture->invalidated = true;
      return cudaErrorStreamCaptureIsolation;
    }
    return machine.Enqueue(lock, waiting, std::make_shared<WaitWork>(found->record));
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return Call(__func__, Needs::kContext, [&](Machine& machine, Lock&) {
    constexpr unsigned int kKnown = cudaEventBlockingSync | cudaEventDisableTiming;
    if (!event || (flags & ~kKnown) != 0) return cudaErrorInvalidValue;
    const bool timing = (flags & cudaEventDisableTiming) == 0;
    *event = reinterpret_cast<cudaEvent_t>(machine.AddEvent(machine.current_device(), timing));
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return Call(__func__, Needs::kRelease, [&](Machine& machine, Lock&) {
    Event* const found = machine.LiveEvent(event);
    if (!found) {
      machine.Violate("cudaEventDestroy: an event that does not exist");
      return cudaErrorInvalidResourceHandle;
    }
    found->alive = false;
    return machine.DeviceError(found->device);
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return Call(__func__, Needs::kContext, [&](Machine& machine, Lock& lock) {
    Stream* on = nullptr;
    const cudaError_t error = machine.FindStream("cudaEventRecord", stream, &on);
    if (error != cudaSuccess) return error;
    Event* const found = machine.LiveEvent(event);
    if (!found) {
      machine.Violate("cudaEventRecord: an event that does not exist");
      return cudaErrorInvalidResourceHandle;
    }
    if (found->device != on->device) return cudaErrorInvalidResourceHandle;
    if (on->capture) {
      if (on->capture->invalidated) return cudaErrorStreamCaptureInvalidated;
      found->capture = on->capture;
      found->capture_tail = on->capture_tail;
      found->record = nullptr;
      return cudaSuccess;
    }
    found->capture = nullptr;
    found->record = std::make_shared<EventRecord>();
    return machine.Enqueue(lock, on, std::make_shared<RecordWork>(found->record));
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return Call(__func__, Needs::kContextOutside, [&](Machine& machine, Lock& lock) {
    Event* found = nullptr;
    const cudaError_t error = FindAsked(machine, "cudaEventQuery", event, &found);
    if (error != cudaSuccess || !found->record) return error;
    const std::shared_ptr<EventRecord> record = found->record;
    machine.Poll(lock);
    const cudaError_t lost = machine.DeviceError(found->device);
    return lost != cudaSuccess || record->done ? lost : cudaErrorNotReady;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return Call(__func__, Needs::kContextOutside, [&](Machine& machine, Lock& lock) {
    Event* found = nullptr;
    const cudaError_t error = FindAsked(machine, "cudaEventSynchronize", event, &found);
    if (error != cudaSuccess || !found->record) return error;
    const std::shared_ptr<EventRecord> record = found->record;
    const auto done = [&] { return record->done; };
    if (!machine.RunUntil(lock, done, "cudaEventSynchronize")) return cudaErrorLaunchTimeout;
    machine.CheckGuards();
    return machine.DeviceError(found->device);
  });
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return Call(__func__, Needs::kContext, [&](Machine& machine, Lock&) {
    Event* first = nullptr;
    Event* last = nullptr;
    cudaError_t error = FindAsked(machine, "cudaEventElapsedTime", start, &first);
    if (error == cudaSuccess) error = FindAsked(machine, "cudaEventElapsedTime", end, &last);
    if (error != cudaSuccess) return error;
    if (!ms) return cudaErrorInvalidValue;
    if (!first->timing || !last->timing || !first->record || !last->record) return cudaErrorInvalidResourceHandle;
    if (!first->record->done || !last->record->done) return cudaErrorNotReady;
    *ms = std::chrono::duration<float, std::milli>(last->record->when - first->record->when).count();
    return cudaSuccess;
  });
}
