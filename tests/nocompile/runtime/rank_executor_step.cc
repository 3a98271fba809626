// One step of a program, run apart from the others.
// AS: tools/run/main.cc
// EXPECT-gcc: is protected within this context
// EXPECT-clang: is a protected member of
#include "runtime/execute/rank_executor.h"

namespace meshseal::runtime {

#ifdef MESHSEAL_BYPASS
auto OneStep() { return &RankExecutor::RunStep; }
#else
auto WholeProgram() { return &RankExecutor::Run; }
#endif

}  // namespace meshseal::runtime
