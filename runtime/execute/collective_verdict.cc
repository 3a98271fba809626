#include "runtime/execute/collective_verdict.h"

#include "absl/strings/str_cat.h"
#include "runtime/comm/agreement.h"
#include "schema/reason.h"

namespace meshseal::runtime {

absl::Status CollectiveVerdict(const StepFrame& frame, uint32_t step_number, uint64_t slots, const absl::Status& cause,
                               const absl::Status& reduced, const StatusLane& sum, const StepTrail& trail,
                               Communicator& group) {
  if (!cause.ok() && !reduced.ok()) return cause;
  if (ReasonOf(reduced) == Reason::kDeadline) {
    return frame.Placed(
        step_number, Refuse(Reason::kDeadline, absl::StrCat(reduced.message(), "; this rank entered ", trail.Text())));
  }
  if (!reduced.ok()) return frame.Placed(step_number, reduced);
  if (sum.errors > 0) {
    const absl::Status agreed = Agree(group, cause);
    return cause.ok() ? frame.Placed(step_number, agreed) : agreed;
  }
  return frame.Placed(step_number, CheckLane(sum, group.size(), slots * frame.program().tensor_degree()));
}

}  // namespace meshseal::runtime
