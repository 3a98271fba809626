// The arithmetic of the router's rule that concerns one expert, for host and device: float64, rounded where it says so.
#ifndef MESHSEAL_RUNTIME_NUMERICS_ROUTER_SCORES_H_
#define MESHSEAL_RUNTIME_NUMERICS_ROUTER_SCORES_H_

#include <cmath>

#include "runtime/host_device.h"
#include "runtime/numerics/exact_functions.h"
#include "schema/rules.h"

namespace meshseal::runtime {

MESHSEAL_HOST_DEVICE inline double Sigmoid(double value) { return 1 / (1 + ExactExp(-value)); }

// What a softmax divides by the sum of, `largest` being the largest of its logits.
MESHSEAL_HOST_DEVICE inline double SoftmaxTerm(float logit, float largest) {
  return ExactExp(static_cast<double>(logit) - static_cast<double>(largest));
}

// The score of a logit by itself: sigmoid or sqrt_softplus.
MESHSEAL_HOST_DEVICE inline double ScoreOf(Scoring scoring, float logit) {
  const auto value = static_cast<double>(logit);
  if (scoring == Scoring::kSigmoid) return Sigmoid(value);
  return std::sqrt(value > 20 ? value : ExactLog1p(ExactExp(value)));
}

// Whether sparsemixer's softmax takes in an expert beside the one with the highest logit of those left.
MESHSEAL_HOST_DEVICE inline bool IsNear(const Router& router, float logit, float highest) {
  const auto value = static_cast<double>(logit);
  const auto top = static_cast<double>(highest);
  const double magnitude = value < 0 ? -value : value;
  // A zero scale means that both are zero, and so equal.
  const double scale = magnitude < top ? top : magnitude;
  return value == top || (top - value) / scale <= 2 * static_cast<double>(router.epsilon);
}

// The weight of an expert with `score`, as multiplied in; `sum` is that of all chosen scores.
MESHSEAL_HOST_DEVICE inline float WeightOf(const Router& router, double score, double sum) {
  const auto guard = static_cast<double>(router.guard);
  double divisor = 1;
  switch (router.renormalize) {
    case Renormalize::kSum:
      divisor = sum;
      break;
    case Renormalize::kSumPlus:
      divisor = sum + guard;
      break;
    case Renormalize::kSumFloor:
      divisor = sum < guard ? guard : sum;
      break;
    case Renormalize::kNone:
    case Renormalize::kInvalid:  // the meaning gate refuses it
      break;
  }
  return static_cast<float>(score / divisor * static_cast<double>(router.scale));
}

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_NUMERICS_ROUTER_SCORES_H_
