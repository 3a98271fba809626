// Sum over each token's owned slots.
#include "runtime/reference/reference_backend.h"
#include "runtime/reference/slot_sum.h"

namespace meshseal::runtime {

absl::Status ReferenceBackend::Combine(const CombineArgs& args) { return SumSlots(args); }

}  // namespace meshseal::runtime
