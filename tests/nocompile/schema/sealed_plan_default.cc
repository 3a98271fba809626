// A sealed plan out of nothing.
// AS: tools/plan/main.cc
// EXPECT-gcc: no matching function for call to
// EXPECT-clang: no matching constructor for initialization
#include <optional>

#include "schema/sealed_plan.h"

namespace meshseal {

#ifdef MESHSEAL_BYPASS
SealedPlan forged;
#else
std::optional<SealedPlan> nothing;
#endif

}  // namespace meshseal
