// A sealed plan as an aggregate with a named member.
// AS: tools/plan/main.cc
// EXPECT-gcc: designated initializers cannot be used with a non-aggregate type
// EXPECT-gcc: no matching function for call to 'meshseal::SealedPlan::SealedPlan(<brace-enclosed
// EXPECT-clang: no matching constructor for initialization
#include "schema/sealed_plan.h"

namespace meshseal {

#ifdef MESHSEAL_BYPASS
SealedPlan forged{.content_ = nullptr};
#else
Policy policy{.min_serial = 0};
#endif

}  // namespace meshseal
