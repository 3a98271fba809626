// The collective of ranks that have a GPU each, over NCCL.
//
// Communicators do not block: every call returns, and how it is doing is asked until it is done, the host's group says
// that a member has failed, or the deadline has passed. None is ever shrunk: the plan names its ranks.
#ifndef MESHSEAL_RUNTIME_CUDA_NCCL_COLLECTIVE_H_
#define MESHSEAL_RUNTIME_CUDA_NCCL_COLLECTIVE_H_

#include <nccl.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/comm/communicator.h"
#include "runtime/cuda/device_collective.h"
#include "runtime/launch/environment.h"
#include "schema/plan.h"

namespace meshseal::cuda {

// OK also for what is still in progress. `what` was asked of NCCL, in words. Reasons: kPeerFailed where NCCL has lost
// another rank, kDevice for every other failure.
absl::Status FromNccl(ncclResult_t result, absl::string_view what);

// The version of the NCCL that is linked, "2.28.9". Touches no device. Reason kDevice.
absl::StatusOr<std::string> NcclVersion();

// OK where NCCL may carry the ranks of a plan with that mesh: its version is one that the mesh takes, and no variable
// has ranks meet at an address of its own (NCCL_COMM_ID), past what they agreed on, or has launches wait for other
// ranks without a deadline (CUDA_LAUNCH_BLOCKING). Touches no device. Reason kRankRecord.
absl::Status CheckNccl(const Mesh& mesh, absl::string_view version, const runtime::Environment& environment);

// Communicators that end, each on a thread of its own: NCCL waits for the other ranks, in this process and in others,
// and a call of it may never return. Any thread may call it.
class NcclEndings {
 public:
  // Waits for all of them, for each as long as it was given; what hangs then is left to the end of the process.
  ~NcclEndings();

  // Nothing of `communicator` is under way and no graph holds a call of it. Ends it together with the other ranks;
  // alone where they have not come after `deadline`.
  void Close(ncclComm_t communicator, std::chrono::milliseconds deadline);

  // Ends `communicator` and what is under way. Returns when that is done, or hangs.
  static void Abort(ncclComm_t communicator);

 private:
  struct Ending {
    std::future<void> ended;
    std::chrono::steady_clock::time_point until;
  };

  std::mutex mutex_;
  std::vector<Ending> endings_;
};

// Of a collective's waits, now and later.
struct NcclWaits {
  std::chrono::milliseconds deadline{0};  // none is longer, and the group's calls have the same one
  // Set when this process was asked to end; null: nobody asks. Must live longer than the collective.
  const std::atomic<bool>* drain = nullptr;
};

// One member's end, on the current device, of which no other rank has one. The members of `group`, which must live
// longer, are threads or processes, and all of them call it; a failure of one ends the group's messages. `endings` is
// where it ends. Reasons: kDevice, kDeadline, kPeerFailed, kStopped.
absl::StatusOr<std::unique_ptr<DeviceCollective>> MakeNcclCollective(runtime::Communicator& group,
                                                                     const NcclWaits& waits,
                                                                     std::shared_ptr<NcclEndings> endings);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_NCCL_COLLECTIVE_H_
