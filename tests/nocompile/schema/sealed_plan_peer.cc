// A class of the same namespace with a name that a test might be given friendship under.
// AS: tools/plan/main.cc
// EXPECT-gcc: is private within this context
// EXPECT-clang: calling a private constructor of class
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
