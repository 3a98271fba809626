// A step of a bound program, changed.
// AS: tools/run/main.cc
// EXPECT-gcc: in read-only object
// EXPECT-clang: cannot assign to return value because function 'operator[]' returns a const value
#include "runtime/program/rank_program.h"

namespace meshseal::runtime {

void Change(RankProgram& program, BoundStep& own) {
#ifdef MESHSEAL_BYPASS
  program.steps()[0].kind = StepKind::kResidual;
#else
  own.kind = program.steps()[0].kind;
#endif
}

}  // namespace meshseal::runtime
