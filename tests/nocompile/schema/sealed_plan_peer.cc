// A class of the same namespace with a name that a test might be given friendship under.
// AS: tools/plan/main.cc
// EXPECT-gcc: is private within this context
// EXPECT-gcc: invalid application of 'sizeof' to incomplete type
// EXPECT-clang: calling a private constructor of class
// EXPECT-clang: invalid application of 'sizeof' to an incomplete type
#include <memory>
#include <utility>

#include "schema/sealed_plan.h"

namespace meshseal {

struct SealedPlanTestPeer {
#ifdef MESHSEAL_BYPASS
  static SealedPlan Make() { return SealedPlan(nullptr); }
#else
  static SealedPlan Make(SealedPlan opened) { return opened; }
#endif
};

}  // namespace meshseal
