// A field of a sealed plan, written after the gates.
// AS: tools/plan/main.cc
// EXPECT-gcc: in read-only object
// EXPECT-clang: cannot assign to return value because function 'plan' returns a const value
#include "schema/sealed_plan.h"

namespace meshseal {

void Change(SealedPlan& opened, Plan& own) {
#ifdef MESHSEAL_BYPASS
  opened.plan().hidden = 1;
#else
  own.hidden = opened.plan().hidden;
#endif
}

}  // namespace meshseal
