#include "runtime/reference/activation_rule.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "runtime/program/rank_facts.h"

namespace meshseal::runtime {
namespace {

constexpr double kSqrtTwoOverPi = 0.79788456080286535588;

// gate * sigmoid(alpha * gate): silu where alpha is 1.
double Gated(double gate, double alpha) { return gate / (1 + std::exp(-alpha * gate)); }

double Gelu(double gate) { return gate / 2 * (1 + std::tanh(kSqrtTwoOverPi * (gate + 0.044715 * gate * gate * gate))); }

// Of a rule without a gate, `gate` is nothing. A NaN stays one.
double Activated(const Activation& rule, double gate, double up) {
  const auto limit = static_cast<double>(rule.limit);
  switch (rule.kind) {
    case ActivationKind::kSwiGluOai:  // gate from above, up on both sides, and 1 more of up
      gate = std::min(gate, limit);
      up = std::clamp(up, -limit, limit);
      return Gated(gate, static_cast<double>(rule.alpha)) * (up + 1);
    case ActivationKind::kSwiGluPreclamp:
      return Gated(std::min(gate, limit), 1) * std::clamp(up, -limit, limit);
    case ActivationKind::kGeGlu:
      return Gelu(gate) * up;
    case ActivationKind::kRelu2:
      return up < 0 ? 0 : up * up;
    case ActivationKind::kSwiGlu:
    case ActivationKind::kInvalid:  // the meaning gate refuses it
      break;
  }
  return Gated(gate, 1) * up;
}

}  // namespace

void Activate(const Activation& rule, absl::Span<const float> products, absl::Span<float> out) {
  const bool gated = HasGate(rule.kind);
  const absl::Span<const float> up = products.subspan(gated ? out.size() : 0);
  for (size_t c = 0; c < out.size(); ++c) {
    const double gate = gated ? static_cast<double>(products[c]) : 0;
    out[c] = static_cast<float>(Activated(rule, gate, static_cast<double>(up[c])));
  }
}

}  // namespace meshseal::runtime
