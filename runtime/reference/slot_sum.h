// The sum that both ways to combine begin with.
#ifndef MESHSEAL_RUNTIME_REFERENCE_SLOT_SUM_H_
#define MESHSEAL_RUNTIME_REFERENCE_SLOT_SUM_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/backend/step_args.h"

namespace meshseal::runtime {

// Each token's owned slots, in slot order; exact zeros for a token without one. Reason kNonFinite for an expert's
// output that is not finite, whatever its weight.
absl::Status SumSlots(const CombineArgs& args);

bool AllFinite(absl::Span<const float> values);

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_REFERENCE_SLOT_SUM_H_
