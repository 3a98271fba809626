// A reference to the plan of a sealed plan through which it could be changed.
// AS: tools/plan/main.cc
// EXPECT-gcc: discards qualifiers
// EXPECT-clang: drops 'const' qualifier
#include "schema/sealed_plan.h"

namespace meshseal {

#ifdef MESHSEAL_BYPASS
Plan& Inside(SealedPlan& opened) { return opened.plan(); }
#else
const Plan& Inside(SealedPlan& opened) { return opened.plan(); }
#endif

}  // namespace meshseal
