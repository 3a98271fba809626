// Ranks as processes, on one host or several, over MPI (written for and tested with Open MPI 4.1): one rank a process.
//
// No call of MPI waits for ever: messages are non-blocking, every wait has a deadline, errors are returned. Groups need
// no communicators of MPI's own, whose making is a wait for all members; a tag keeps their messages apart, and what a
// rank tells the others that ends the world. The start and the end of MPI, which wait for all ranks, are watched by a
// thread that ends the process.
#ifndef MESHSEAL_RUNTIME_COMM_MPI_WORLD_H_
#define MESHSEAL_RUNTIME_COMM_MPI_WORLD_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/comm/endpoint.h"

namespace meshseal::runtime {

// One per process, from Start to Finish. Thread-safe.
class MpiWorld : public RankWorld {
 public:
  struct StartOptions {
    // Tells that the process was asked to end: a wait that lasts longer than a moment then ends with kStopped. May be
    // null; lives as long as the process.
    const std::atomic<bool>* stop = nullptr;
    std::chrono::milliseconds start_deadline{600'000};  // for all ranks to have started
    std::chrono::milliseconds end_deadline{30'000};     // for all ranks to come to Finish
    // Called on a thread of its own, when MPI has not started or ended in that time (kDeadline) or the process was
    // asked to end meanwhile (kStopped): says so. The process then ends with the exit code of the reason. May be null.
    std::function<void(const absl::Status&)> give_up;
  };

  // Starts MPI. Reasons: kUsage when MPI was started before, or cannot be called by several threads; kOutOfMemory.
  static absl::StatusOr<std::shared_ptr<MpiWorld>> Start(const StartOptions& options);

  ~MpiWorld() override;

  struct Library {
    std::string version;  // one line
    std::string threads;  // who may call it at the same time: single, funneled, serialized, multiple
  };
  // What MPI says of itself; it need not be started.
  static Library Describe();

  uint32_t rank() const;
  uint32_t size() const;

  Transport transport() const override { return Transport::kMpi; }
  std::string library() const override;
  absl::StatusOr<std::vector<std::unique_ptr<Endpoint>>> Connect(uint32_t world, uint32_t scope) override;

  // What becomes of the other ranks when one has failed.
  enum class Others : uint8_t { kEnd, kGoOn };

  // Ends MPI, together with all others. A rank that failed tells them why, waits a moment so that they can say why they
  // end, then ends the whole job with the exit code of its reason and does not return; a rank that ends because of
  // another (kPeerFailed) lets that one go first.
  // MPI ends for all ranks at once. So where ranks fail in scopes smaller than the world (Connect), a rank that is
  // done, or has failed while others go on, stays until every scope has a rank that is done: for as long as they run,
  // unless the process is asked to end, which ends the job. It returns then, also with a failure, and the process ends
  // with the exit code of that; where some rank does not come in `end_deadline` after that, it is the one that ends the
  // job.
  void Finish(const absl::Status& status, Others others);

 private:
  class State;
  explicit MpiWorld(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_COMM_MPI_WORLD_H_
