// One element of an activation, for host and device.
#ifndef MESHSEAL_RUNTIME_NUMERICS_ACTIVATION_VALUE_H_
#define MESHSEAL_RUNTIME_NUMERICS_ACTIVATION_VALUE_H_

#include "runtime/host_device.h"
#include "runtime/numerics/exact_functions.h"
#include "schema/rules.h"

namespace meshseal::runtime {

// gate * sigmoid(alpha * gate): silu where alpha is 1.
MESHSEAL_HOST_DEVICE inline double SigmoidGated(double gate, double alpha) {
  return gate / (1 + ExactExp(-alpha * gate));
}

// By its tanh form.
MESHSEAL_HOST_DEVICE inline double Gelu(double gate) {
  constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
  return gate / 2 * (1 + ExactTanh(kSqrtTwoOverPi * (gate + 0.044715 * gate * gate * gate)));
}

// What a NaN passes unchanged.
MESHSEAL_HOST_DEVICE inline double AtMost(double value, double limit) { return limit < value ? limit : value; }
MESHSEAL_HOST_DEVICE inline double AtLeast(double value, double limit) { return value < limit ? limit : value; }

// By the rules of runtime/reference/activation_rule.h, in float64 and rounded once. Of a rule without a gate, `gate` is
// nothing. A NaN stays one.
MESHSEAL_HOST_DEVICE inline float Activated(const Activation& rule, float gate_product, float up_product) {
  const auto limit = static_cast<double>(rule.limit);
  const auto gate = static_cast<double>(gate_product);
  const auto up = static_cast<double>(up_product);
  double value = 0;
  switch (rule.kind) {
    case ActivationKind::kSwiGluOai:  // gate from above, up on both sides, and 1 more of up
      value =
          SigmoidGated(AtMost(gate, limit), static_cast<double>(rule.alpha)) * (AtLeast(AtMost(up, limit), -limit) + 1);
      break;
    case ActivationKind::kSwiGluPreclamp:
      value = SigmoidGated(AtMost(gate, limit), 1) * AtLeast(AtMost(up, limit), -limit);
      break;
    case ActivationKind::kGeGlu:
      value = Gelu(gate) * up;
      break;
    case ActivationKind::kRelu2:
      value = up < 0 ? 0 : up * up;
      break;
    case ActivationKind::kSwiGlu:
    case ActivationKind::kInvalid:  // the meaning gate refuses it
      value = SigmoidGated(gate, 1) * up;
      break;
  }
  return static_cast<float>(value);
}

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_NUMERICS_ACTIVATION_VALUE_H_
