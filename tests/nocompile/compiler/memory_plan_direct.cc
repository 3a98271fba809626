// A memory plan that Budget did not make.
// AS: tools/compile/main.cc
// EXPECT-gcc: is private within this context
// EXPECT-clang: calling a private constructor
#include <optional>

#include "compiler/budget/memory_plan.h"

namespace meshseal::compiler {

#ifdef MESHSEAL_BYPASS
MemoryPlan memory;
#else
std::optional<MemoryPlan> memory;
#endif

}  // namespace meshseal::compiler
