#include "runtime/cuda/peer_watch.h"

#include "absl/strings/str_cat.h"
#include "runtime/comm/agreement.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::cuda {
namespace {

using Clock = std::chrono::steady_clock;

// How long a wait goes on after the process was asked to end: a step that is about to be done ends well.
constexpr std::chrono::milliseconds kStopGrace{300};
// How long members are waited for that should be here.
constexpr std::chrono::milliseconds kMoment{500};

}  // namespace

absl::Status PeerWatch::CallRoll(const absl::Status& own) {
  group_.SetDeadline(kMoment);
  absl::Status agreed = runtime::Agree(group_, own);
  group_.SetDeadline(deadline_);
  return agreed;
}

absl::Status PeerWatch::Check() {
  MESHSEAL_RETURN_IF_ERROR(group_.Check());
  if (met_ || drain_ == nullptr || !drain_->load(std::memory_order_relaxed)) return absl::OkStatus();
  const Clock::time_point now = Clock::now();
  if (meets_ == Clock::time_point::max()) meets_ = now + kStopGrace;
  if (now < meets_) return absl::OkStatus();
  met_ = true;
  return CallRoll(absl::OkStatus());
}

absl::Status PeerWatch::Watch(const std::function<absl::Status()>& wait) {
  absl::Status waited = wait();
  if (ReasonOf(waited) != Reason::kDeadline || !group_.Check().ok()) return waited;
  static_cast<void>(CallRoll(waited));
  absl::Status ended = group_.Check();  // where a member did not come
  if (ended.ok()) return waited;
  if (ReasonOf(ended) != Reason::kDeadline) return ended;
  return Refuse(Reason::kDeadline, absl::StrCat(waited.message(), ", then ", ended.message()));
}

}  // namespace meshseal::cuda
