// Gate and up to an activation, by the layer's rule.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "runtime/reference/dot.h"
#include "runtime/reference/reference_backend.h"

namespace meshseal::runtime {
namespace {

// gate * sigmoid(alpha * gate): silu where alpha is 1.
double Gated(double gate, double alpha) { return gate / (1 + std::exp(-alpha * gate)); }

// In float64, rounded once.
float Activate(const meshseal::Activation& rule, float gate, float up) {
  auto g = static_cast<double>(gate);
  auto u = static_cast<double>(up);
  const auto limit = static_cast<double>(rule.limit);
  switch (rule.kind) {
    case ActivationKind::kSwiGluOai:  // gate from above, up on both sides, and 1 more of up
      g = std::min(g, limit);
      u = std::clamp(u, -limit, limit);
      return static_cast<float>(Gated(g, static_cast<double>(rule.alpha)) * (u + 1));
    case ActivationKind::kSwiGluPreclamp:
      g = std::min(g, limit);
      u = std::clamp(u, -limit, limit);
      break;
    case ActivationKind::kSwiGlu:
    case ActivationKind::kGeGlu:  // CheckExecuted refuses these
    case ActivationKind::kRelu2:
    case ActivationKind::kInvalid:
      break;
  }
  return static_cast<float>(Gated(g, 1) * u);
}

}  // namespace

absl::Status ReferenceBackend::Activation(const ActivationArgs& args) {
  const uint64_t columns = args.shape.columns;
  for (uint64_t slot = 0; slot < args.shape.slots(); ++slot) {
    if (args.owned.LocalExpert(slot) < 0) continue;
    const absl::Span<const float> gate_up = RowOf(args.gate_up, slot, 2 * columns);
    const absl::Span<float> out = RowOf(args.out, slot, columns);
    for (uint64_t c = 0; c < columns; ++c) out[c] = Activate(args.activation, gate_up[c], gate_up[columns + c]);
  }
  return absl::OkStatus();
}

}  // namespace meshseal::runtime
