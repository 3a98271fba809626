// Streams and events of a device, and waiting for them with a deadline.
#ifndef MESHSEAL_RUNTIME_CUDA_STREAM_H_
#define MESHSEAL_RUNTIME_CUDA_STREAM_H_

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace meshseal::cuda {

// Of the device that was current when it was made. Move-only.
class Event {
 public:
  Event() = default;

  // Without a time stamp. Reason kDevice.
  static absl::StatusOr<Event> Make();

  cudaEvent_t get() const { return event_.get(); }

 private:
  struct Destroy {
    void operator()(cudaEvent_t event) const { static_cast<void>(cudaEventDestroy(event)); }
  };
  std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, Destroy> event_;
};

// Likewise. Apart from the legacy default stream: nothing waits for it implicitly.
class Stream {
 public:
  Stream() = default;

  static absl::StatusOr<Stream> Make();

  cudaStream_t get() const { return stream_.get(); }

 private:
  struct Destroy {
    void operator()(cudaStream_t stream) const { static_cast<void>(cudaStreamDestroy(stream)); }
  };
  std::unique_ptr<std::remove_pointer_t<cudaStream_t>, Destroy> stream_;
};

// Enqueues a copy; none of no bytes, and none in place. `what` is said of a failure: reason kDevice.
absl::Status EnqueueCopy(void* to, const void* from, uint64_t bytes, cudaMemcpyKind kind, cudaStream_t stream,
                         absl::string_view what);

// Asks until `done` says so or fails, the longer the less often; no longer than `deadline`: reason kDeadline, with
// `what` in front.
absl::Status WaitUntil(const std::function<absl::StatusOr<bool>()>& done, std::chrono::milliseconds deadline,
                       absl::string_view what);

// Waits until all that was enqueued before `event` was recorded is done. `check` is called meanwhile; its failure ends
// the wait. No call of CUDA that blocks is made, so a device that hangs ends here: reason kDeadline. Reason kDevice
// when what was enqueued has failed, with `what` in front.
absl::Status WaitFor(cudaEvent_t event, std::chrono::milliseconds deadline, absl::string_view what,
                     const std::function<absl::Status()>& check);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_STREAM_H_
