// A field of a draft, changed before it is sealed.
// AS: tools/compile/main.cc
// EXPECT-gcc: in read-only object
// EXPECT-clang: cannot assign to return value because function 'plan' returns a const value
#include "compiler/lowering/plan_draft.h"

namespace meshseal::compiler {

void Change(PlanDraft& draft, Plan& own) {
#ifdef MESHSEAL_BYPASS
  draft.plan().hidden = 1;
#else
  own.hidden = draft.plan().hidden;
#endif
}

}  // namespace meshseal::compiler
