// A sealed plan written over another one that stays.
// AS: tools/plan/main.cc
// EXPECT-gcc: use of deleted function
// EXPECT-clang: overload resolution selected deleted operator
#include <utility>

#include "schema/sealed_plan.h"

namespace meshseal {

void Replace(SealedPlan& held, SealedPlan& opened) {
#ifdef MESHSEAL_BYPASS
  held = opened;
#else
  held = std::move(opened);
#endif
}

}  // namespace meshseal
