// The name and the parameters of a draft's friend, in another namespace.
// AS: tools/compile/main.cc
// EXPECT-gcc: is private within this context
// EXPECT-clang: calling a private constructor of class
#include "compiler/lowering/plan_draft.h"

namespace meshseal::compiler {

namespace elsewhere {

#ifdef MESHSEAL_BYPASS
PlanDraft Lower(const CheckedModel&, const Placement&, const MemoryPlan&) { return PlanDraft(Plan()); }
#else
PlanDraft Lower(const CheckedModel&, const Placement&, const MemoryPlan&, PlanDraft made) { return made; }
#endif

}  // namespace elsewhere

}  // namespace meshseal::compiler
