// Gate and up to an activation, by the layer's rule.
#include <cstdint>

#include "runtime/reference/activation_rule.h"
#include "runtime/reference/dot.h"
#include "runtime/reference/reference_backend.h"

namespace meshseal::runtime {

absl::Status ReferenceBackend::Activation(const ActivationArgs& args) {
  const StepShape& shape = args.shape;
  for (uint64_t slot = 0; slot < shape.slots(); ++slot) {
    if (args.owned.LocalExpert(slot) < 0) continue;
    const absl::Span<float> out = RowOf(args.out, slot, shape.columns);
    Activate(args.activation, RowOf(args.gate_up, slot, shape.products()), out);
    if (!args.weighs) continue;
    for (float& value : out) value *= args.owned.routing.weights[slot];
  }
  return absl::OkStatus();
}

}  // namespace meshseal::runtime
