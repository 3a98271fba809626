// The rule by which gate and up become an activation, for routed experts and the shared one.
#ifndef MESHSEAL_RUNTIME_REFERENCE_ACTIVATION_RULE_H_
#define MESHSEAL_RUNTIME_REFERENCE_ACTIVATION_RULE_H_

#include "absl/types/span.h"
#include "schema/plan.h"

namespace meshseal::runtime {

// `products`: gate columns, then up columns, as many as `out` has of each; up columns alone where the rule has no gate.
//   swiglu            silu(gate) * up
//   geglu             gelu(gate) * up, gelu by its tanh form: x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))
//   relu2             relu(up)^2
//   swiglu_oai        gate at most limit, up within +-limit: gate * sigmoid(alpha * gate) * (up + 1)
//   swiglu_preclamp   gate at most limit, up within +-limit: silu(gate) * up
// An element is computed in float64 and rounded once.
void Activate(const Activation& rule, absl::Span<const float> products, absl::Span<float> out);

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_REFERENCE_ACTIVATION_RULE_H_
