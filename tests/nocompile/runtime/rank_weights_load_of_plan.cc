// Weights read by a plan that nobody sealed.
// AS: tools/run/main.cc
// EXPECT-gcc: cannot convert 'const meshseal::Plan' to 'const meshseal::SealedPlan&'
// EXPECT-clang: no viable conversion from 'const meshseal::Plan' to 'const meshseal::SealedPlan'
#include "runtime/weights/rank_weights.h"

namespace meshseal::runtime {

absl::Status Load(RankWeights& weights, const Plan& unsealed, const SealedPlan& plan, const WeightFiles& files) {
  (void)unsealed, (void)plan;
#ifdef MESHSEAL_BYPASS
  return weights.Load(unsealed, files);
#else
  return weights.Load(plan, files);
#endif
}

}  // namespace meshseal::runtime
