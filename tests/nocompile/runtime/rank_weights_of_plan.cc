// Memory for weights by the figures of a plan that nobody sealed.
// AS: tools/run/main.cc
// EXPECT-gcc: cannot convert 'const meshseal::Plan' to 'const meshseal::SealedPlan&'
// EXPECT-clang: no viable conversion from 'const meshseal::Plan' to 'const meshseal::SealedPlan'
#include "runtime/weights/rank_weights.h"

namespace meshseal::runtime {

#ifdef MESHSEAL_BYPASS
auto Reserve(const Plan& plan) { return RankWeights::Reserve(plan, 0); }
#else
auto Reserve(const SealedPlan& plan) { return RankWeights::Reserve(plan, 0); }
#endif

}  // namespace meshseal::runtime
