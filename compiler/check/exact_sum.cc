#include "compiler/check/exact_sum.h"

#include <cmath>

namespace meshseal::compiler {
namespace {

// Whole bits that `value` > 0 needs: the exponent of the next power of two.
int BitsFor(double value) {
  int exponent = 0;
  const double half_or_more = std::frexp(value, &exponent);  // value = half_or_more x 2^exponent
  return half_or_more == 0.5 ? exponent - 1 : exponent;
}

}  // namespace

uint64_t ExactAddends(const MoeSpec& moe, const Deployment& deployment) {
  const uint64_t slots = moe.experts_per_token.value;
  uint64_t addends = slots * deployment.exact_segments.value;
  if (moe.shared_expert.has_value()) addends += SharedSegments(deployment).value;
  if (moe.FindTensor(TensorRole::kDownBias) != nullptr) addends += slots;
  return addends;
}

int ExactFractionBits(const MoeSpec& moe, const Deployment& deployment) {
  return kFixedPointBits - BitsFor(deployment.exact_bound.value) -
         BitsFor(static_cast<double>(ExactAddends(moe, deployment)));
}

}  // namespace meshseal::compiler
