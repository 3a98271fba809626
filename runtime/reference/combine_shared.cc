// The sum over a token's owned slots, then the shared expert's row, which no routing weight reaches.
#include <cstdint>

#include "runtime/backend/refusals.h"
#include "runtime/reference/dot.h"
#include "runtime/reference/reference_backend.h"
#include "runtime/reference/slot_sum.h"
#include "schema/status_macros.h"

namespace meshseal::runtime {

absl::Status ReferenceBackend::CombineShared(const CombineSharedArgs& args) {
  MESHSEAL_RETURN_IF_ERROR(SumSlots(args.combine));
  const StepShape& shape = args.combine.shape;
  for (uint32_t token = 0; token < shape.tokens; ++token) {
    const absl::Span<const float> shared = RowOf(args.shared, token, shape.hidden);
    if (!AllFinite(shared)) {
      return RefuseOutput(shape.first_token + token, kSharedExpertText);
    }
    const absl::Span<float> out = RowOf(args.combine.out, token, shape.hidden);
    for (uint32_t h = 0; h < shape.hidden; ++h) out[h] += shared[h];
  }
  return absl::OkStatus();
}

}  // namespace meshseal::runtime
