// A sealed plan made where the standard library constructs it.
// AS: tools/plan/main.cc
// EXPECT-gcc: no matching function for call to
// EXPECT-gcc: no type named 'type' in 'struct std::enable_if<false, meshseal::SealedPlan&>'
// EXPECT-clang: no matching member function for call to
#include <optional>
#include <utility>

#include "schema/sealed_plan.h"

namespace meshseal {

void Fill(std::optional<SealedPlan>& place, SealedPlan opened) {
#ifdef MESHSEAL_BYPASS
  place.emplace(nullptr);
#else
  place.emplace(std::move(opened));
#endif
}

}  // namespace meshseal
