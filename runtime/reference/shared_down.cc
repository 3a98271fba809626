// Down product of the shared expert, times the sigmoid of its own gate. It is multiplied in float32: once on every
// rank, as the rows are addends.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime/reference/dot.h"
#include "runtime/reference/reference_backend.h"
#include "runtime/reference/shared_gate.h"

namespace meshseal::runtime {

absl::Status ReferenceBackend::SharedDown(const SharedDownArgs& args) {
  const StepShape& shape = args.shape;
  const SharedWeights& shared = args.shared;
  if (shared.down.empty()) {
    std::fill(args.out.begin(), args.out.end(), 0.0f);
    return absl::OkStatus();
  }
  const std::vector<float> gate = VectorOf(shared.expert_gate);
  for (uint32_t token = 0; token < shape.tokens; ++token) {
    const absl::Span<float> out = RowOf(args.out, token, shape.hidden);
    Multiply(shared.down, ToBasis(args.basis, RowOf(args.activations, token, shared.down.columns)), out);
    if (gate.empty()) continue;
    const float share = SharedGateOf(gate, RowOf(args.x, token, shape.hidden));
    for (float& value : out) value *= share;
  }
  return absl::OkStatus();
}

}  // namespace meshseal::runtime
