// The content of a sealed plan, written by somebody else.
// AS: tools/plan/main.cc
// EXPECT-gcc: struct meshseal::SealedPlan::Content' is private
// EXPECT-gcc: has incomplete type and cannot be defined
// EXPECT-clang: 'Content' is a private member of
// EXPECT-clang: variable has incomplete type
#include "schema/sealed_plan.h"

namespace meshseal {

#ifdef MESHSEAL_BYPASS
SealedPlan::Content content;
#else
SealFacts facts;
#endif

}  // namespace meshseal
