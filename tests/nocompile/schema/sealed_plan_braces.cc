// A sealed plan in braces, around no content.
// AS: tools/plan/main.cc
// EXPECT-gcc: is private within this context
// EXPECT-gcc: invalid application of 'sizeof' to incomplete type
// EXPECT-clang: calling a private constructor of class
// EXPECT-clang: invalid application of 'sizeof' to an incomplete type
#include "schema/sealed_plan.h"

namespace meshseal {

#ifdef MESHSEAL_BYPASS
SealedPlan forged{nullptr};
#else
SealedPlan* nothing{nullptr};
#endif

}  // namespace meshseal
