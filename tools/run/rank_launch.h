// How the ranks of a command are started, and how they end together.
#ifndef MESHSEAL_TOOLS_RUN_RANK_LAUNCH_H_
#define MESHSEAL_TOOLS_RUN_RANK_LAUNCH_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/comm/endpoint.h"

namespace meshseal::runtime {
class MpiWorld;
}

namespace meshseal::tools {

// Set by SIGTERM and SIGINT from the first call on: all ranks then stop together before their next step. A second
// signal ends the process at once.
const std::atomic<bool>* StopRequested();

class RankLaunch {
 public:
  // The longest waits for the other ranks to start, and to come to the end.
  struct Waits {
    std::chrono::milliseconds start;
    std::chrono::milliseconds end;
  };
  // Says why this rank ends, where Start or Finish end the process: when it waited in vain, from a thread of its own,
  // or when MPI and the launcher disagree.
  using GiveUp = std::function<void(uint32_t rank, const absl::Status& cause)>;

  // `ranks` is mpi, or inproc, nccl or loopback, which are threads of this process. Reasons: kNotBuilt for another
  // word, those of ResolveLaunchIdentity, MpiWorld::Start and CheckAgainstMpi.
  static absl::StatusOr<RankLaunch> Start(absl::string_view ranks, const Waits& waits, const GiveUp& give_up);

  const std::shared_ptr<runtime::RankWorld>& world() const { return world_; }

  // Whether this process has world rank 0: it alone writes results.
  bool is_first() const { return rank_ == 0; }
  uint32_t rank() const { return rank_; }
  // Who this process is and who says so, for people; "" where it is alone.
  const std::string& identity() const { return identity_; }

  // Ends the launch as the command has ended. Does not return where others are ended, too: unless `others_go_on`, those
  // of a command that failed.
  void Finish(const absl::Status& status, bool others_go_on = false);

 private:
  std::shared_ptr<runtime::RankWorld> world_;
  std::shared_ptr<runtime::MpiWorld> mpi_;  // null: this process is alone
  uint32_t rank_ = 0;
  std::string identity_;
};

}  // namespace meshseal::tools

#endif  // MESHSEAL_TOOLS_RUN_RANK_LAUNCH_H_
