// How a rank that waits for its device, or for NCCL, hears of the other ranks of its group meanwhile: which of them
// have failed, and, when it has waited long enough, which of them do not answer.
#ifndef MESHSEAL_RUNTIME_CUDA_PEER_WATCH_H_
#define MESHSEAL_RUNTIME_CUDA_PEER_WATCH_H_

#include <atomic>
#include <chrono>
#include <functional>

#include "absl/status/status.h"
#include "runtime/comm/communicator.h"

namespace meshseal::cuda {

// Of one wait of one member; all members of the group wait for the same. Used by one thread.
class PeerWatch {
 public:
  // `deadline` is that of the group's calls. `drain` is set when this process was asked to end; null: nobody asks. All
  // of it must live longer.
  PeerWatch(runtime::Communicator& group, std::chrono::milliseconds deadline, const std::atomic<bool>* drain)
      : group_(group), deadline_(deadline), drain_(drain) {}

  // Does not wait, but once where this process was asked to end a moment ago: what ends all processes of a job when one
  // was killed asks the others first. Then those that were asked meet, once, and one that does not come is named.
  // Reasons kPeerFailed, kStopped, kDeadline.
  absl::Status Check();

  // `wait`, which may call Check. Where it ends with kDeadline, all members have come to that or will in a moment; the
  // one that does not is named beside it.
  absl::Status Watch(const std::function<absl::Status()>& wait);

 private:
  // All members that can answer come, each with its own status, and nobody waits for the others longer than a moment.
  absl::Status CallRoll(const absl::Status& own);

  runtime::Communicator& group_;
  const std::chrono::milliseconds deadline_;
  const std::atomic<bool>* const drain_;
  std::chrono::steady_clock::time_point meets_ = std::chrono::steady_clock::time_point::max();
  bool met_ = false;
};

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_PEER_WATCH_H_
