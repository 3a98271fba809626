// A draft that Lower did not make.
// AS: tools/compile/main.cc
// EXPECT-gcc: is private within this context
// EXPECT-clang: calling a private constructor of class
#include <utility>

#include "compiler/lowering/plan_draft.h"

namespace meshseal::compiler {

#ifdef MESHSEAL_BYPASS
PlanDraft Skip(Plan plan) { return PlanDraft(std::move(plan)); }
#else
PlanDraft Keep(PlanDraft draft) { return draft; }
#endif

}  // namespace meshseal::compiler
