// What a rank makes of the one collective of a program: where all ranks learn whether the step was valid.
#ifndef MESHSEAL_RUNTIME_EXECUTE_COLLECTIVE_VERDICT_H_
#define MESHSEAL_RUNTIME_EXECUTE_COLLECTIVE_VERDICT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/status_lane.h"
#include "runtime/execute/step_frame.h"
#include "runtime/execute/step_trail.h"

namespace meshseal::runtime {

// `cause` is why this rank had no addend, `reduced` how the collective ended, and `sum`, where it ended well, the sum
// of all lanes over `slots` slots. Where it says that a rank had an error, all ranks of `group` agree on which.
// Reasons: `cause`'s; kPeerFailed, kDeadline, with what this rank had entered; kStatusLane.
absl::Status CollectiveVerdict(const StepFrame& frame, uint32_t step_number, uint64_t slots, const absl::Status& cause,
                               const absl::Status& reduced, const StatusLane& sum, const StepTrail& trail,
                               Communicator& group);

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_EXECUTE_COLLECTIVE_VERDICT_H_
