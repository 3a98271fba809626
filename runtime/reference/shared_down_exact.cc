// Down product of the shared expert of an exact sum: times its gate, and fixed point by segments.
#include <algorithm>
#include <cstdint>
#include <optional>

#include "runtime/backend/refusals.h"
#include "runtime/reference/dot.h"
#include "runtime/reference/exact_addends.h"
#include "runtime/reference/reference_backend.h"
#include "runtime/reference/shared_gate.h"

namespace meshseal::runtime {

absl::Status ReferenceBackend::SharedDownExact(const SharedDownExactArgs& args) {
  const StepShape& shape = args.shape;
  const SharedWeights& shared = args.shared;
  std::fill(args.out.begin(), args.out.end(), 0);
  if (shared.down.empty()) return absl::OkStatus();
  const std::vector<float> gate = VectorOf(shared.expert_gate);
  for (uint32_t token = 0; token < shape.tokens; ++token) {
    const float share = gate.empty() ? 1 : SharedGateOf(gate, RowOf(args.x, token, shape.hidden));
    const std::optional<float> refused =
        AddProducts(args.fixed_point, args.segment_ends, shared.down,
                    ToBasis(args.basis, RowOf(args.activations, token, shared.down.columns)), share,
                    RowOf(args.out, token, shape.hidden));
    if (refused.has_value()) {
      return RefuseAddend(args.fixed_point, shape.first_token + token, kSharedExpertText, *refused);
    }
  }
  return absl::OkStatus();
}

}  // namespace meshseal::runtime
