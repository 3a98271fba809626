// A plan sealed that is no draft of the compiler.
// AS: tools/compile/main.cc
// EXPECT-gcc: invalid initialization of reference of type 'const meshseal::compiler::PlanDraft&'
// EXPECT-clang: no matching function for call to 'Emit'
#include "compiler/emit/emit.h"

namespace meshseal::compiler {

#ifdef MESHSEAL_BYPASS
auto Skip(const Plan& plan) { return Emit(plan, 1); }
#else
auto Go(const PlanDraft& draft) { return Emit(draft, 1); }
#endif

}  // namespace meshseal::compiler
