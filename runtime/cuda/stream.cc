#include "runtime/cuda/stream.h"

#include <thread>

#include "absl/strings/str_cat.h"
#include "runtime/cuda/cuda_status.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::cuda {
namespace {

using Clock = std::chrono::steady_clock;

// A decode step takes tens of microseconds: a thread that slept would find it done long ago.
constexpr std::chrono::milliseconds kSpin{2};
constexpr std::chrono::microseconds kPause{100};

}  // namespace

absl::StatusOr<Event> Event::Make() {
  Event event;
  cudaEvent_t made = nullptr;
  MESHSEAL_RETURN_IF_CUDA_ERROR(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), "an event");
  event.event_.reset(made);
  return event;
}

absl::StatusOr<Stream> Stream::Make() {
  Stream stream;
  cudaStream_t made = nullptr;
  MESHSEAL_RETURN_IF_CUDA_ERROR(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "a stream");
  stream.stream_.reset(made);
  return stream;
}

absl::Status EnqueueCopy(void* to, const void* from, uint64_t bytes, cudaMemcpyKind kind, cudaStream_t stream,
                         absl::string_view what) {
  if (bytes == 0 || to == from) return absl::OkStatus();
  return FromCuda(cudaMemcpyAsync(to, from, bytes, kind, stream), what);
}

absl::Status WaitUntil(const std::function<absl::StatusOr<bool>()>& done, std::chrono::milliseconds deadline,
                       absl::string_view what) {
  const Clock::time_point begin = Clock::now();
  while (true) {
    MESHSEAL_ASSIGN_OR_RETURN(const bool is_done, done());
    if (is_done) return absl::OkStatus();
    const Clock::duration waited = Clock::now() - begin;
    if (waited >= deadline) {
      return Refuse(Reason::kDeadline, absl::StrCat(what, ": not done after ", deadline.count(), " ms"));
    }
    if (waited > kSpin) std::this_thread::sleep_for(kPause);
  }
}

absl::Status WaitFor(cudaEvent_t event, std::chrono::milliseconds deadline, absl::string_view what,
                     const std::function<absl::Status()>& check) {
  const auto done = [&]() -> absl::StatusOr<bool> {
    const cudaError_t state = cudaEventQuery(event);
    if (state == cudaSuccess) return true;
    if (state != cudaErrorNotReady) return FromCuda(state, what);
    MESHSEAL_RETURN_IF_ERROR(check());
    return false;
  };
  return WaitUntil(done, deadline, what);
}

}  // namespace meshseal::cuda
