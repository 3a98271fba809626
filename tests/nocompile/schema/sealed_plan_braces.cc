// A sealed plan in braces, around no content.
// AS: tools/plan/main.cc
// EXPECT-gcc: is private within this context
// EXPECT-clang: calling a private constructor of class
#include "schema/sealed_plan.h"

namespace meshseal {

#ifdef MESHSEAL_BYPASS
SealedPlan forged{nullptr};
#else
SealedPlan* nothing{nullptr};
#endif

}  // namespace meshseal
