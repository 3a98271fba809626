// A checkpoint held against a plan that nobody sealed.
// AS: tools/run/main.cc
// EXPECT-gcc: cannot convert 'const meshseal::Plan' to 'const meshseal::SealedPlan&'
// EXPECT-clang: no viable conversion from 'const meshseal::Plan' to 'const meshseal::SealedPlan'
#include "runtime/weights/weight_files.h"

namespace meshseal::runtime {

#ifdef MESHSEAL_BYPASS
auto Open(const Plan& plan) { return WeightFiles::Open(plan, "weights", nullptr); }
#else
auto Open(const SealedPlan& plan) { return WeightFiles::Open(plan, "weights", nullptr); }
#endif

}  // namespace meshseal::runtime
