// A sealed plan made of the bytes of another value.
// AS: tools/plan/main.cc
// EXPECT-gcc: no matching function for call to 'bit_cast
// EXPECT-clang: no matching function for call to 'bit_cast
#include <bit>
#include <cstdint>

#include "schema/sealed_plan.h"

namespace meshseal {

static_assert(sizeof(SealedPlan) == sizeof(uintptr_t));
#ifdef MESHSEAL_BYPASS
SealedPlan Forge(uintptr_t bits) { return std::bit_cast<SealedPlan>(bits); }
#else
void* Forge(uintptr_t bits) { return std::bit_cast<void*>(bits); }
#endif

}  // namespace meshseal
