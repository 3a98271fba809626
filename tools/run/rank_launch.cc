#include "tools/run/rank_launch.h"

#include <csignal>

#include "absl/strings/str_cat.h"
#include "runtime/comm/inproc.h"
#include "runtime/launch/environment.h"
#include "runtime/launch/launch_identity.h"
#include "schema/reason.h"
#include "schema/status_macros.h"
#ifdef MESHSEAL_MPI
#include "runtime/comm/mpi_world.h"
#endif

namespace meshseal::tools {
namespace {

std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void RequestStop(int signal) {
  if (stop_requested.exchange(true)) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

}  // namespace

const std::atomic<bool>* StopRequested() {
  static const bool installed = [] {
    std::signal(SIGTERM, RequestStop);
    std::signal(SIGINT, RequestStop);
    return true;
  }();
  static_cast<void>(installed);
  return &stop_requested;
}

absl::StatusOr<RankLaunch> RankLaunch::Start(absl::string_view ranks, const Waits& waits, const GiveUp& give_up) {
  RankLaunch launch;
  if (ranks == "inproc" || ranks == "nccl" || ranks == "loopback") {
    launch.world_ = runtime::MakeInprocWorld();
    return launch;
  }
#ifdef MESHSEAL_MPI
  if (ranks == "mpi") {
    MESHSEAL_ASSIGN_OR_RETURN(const std::optional<runtime::LaunchIdentity> identity,
                              runtime::ResolveLaunchIdentity(runtime::ProcessEnvironment()));
    const auto stuck = [give_up, rank = identity.has_value() ? identity->rank : 0](const absl::Status& cause) {
      give_up(rank, cause);
    };
    MESHSEAL_ASSIGN_OR_RETURN(launch.mpi_, runtime::MpiWorld::Start({StopRequested(), waits.start, waits.end, stuck}));
    const absl::Status same = runtime::CheckAgainstMpi(identity, launch.mpi_->rank(), launch.mpi_->size());
    if (!same.ok()) {
      give_up(launch.mpi_->rank(), same);
      launch.mpi_->Finish(same, runtime::MpiWorld::Others::kEnd);
      return same;
    }
    launch.identity_ = runtime::IdentityText(identity);
    launch.world_ = launch.mpi_;
    launch.rank_ = launch.mpi_->rank();
    return launch;
  }
  constexpr absl::string_view kBuilt = "'inproc' and 'mpi'";
#else
  static_cast<void>(waits);
  static_cast<void>(give_up);
  constexpr absl::string_view kBuilt = "'inproc'";
#endif
  return Refuse(Reason::kNotBuilt, absl::StrCat("ranks '", ranks, "' are not built, this version has ", kBuilt));
}

void RankLaunch::Finish(const absl::Status& status, bool others_go_on) {
#ifdef MESHSEAL_MPI
  using Others = runtime::MpiWorld::Others;
  if (mpi_ != nullptr) mpi_->Finish(status, others_go_on ? Others::kGoOn : Others::kEnd);
#else
  static_cast<void>(status);
  static_cast<void>(others_go_on);
#endif
}

}  // namespace meshseal::tools
