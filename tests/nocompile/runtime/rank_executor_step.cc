// One step of a program, run apart from the others.
// AS: tools/run/main.cc
// EXPECT-gcc: is private within this context
// EXPECT-clang: is a private member of
#include "runtime/execute/rank_executor.h"

namespace meshseal::runtime {

#ifdef MESHSEAL_BYPASS
auto OneStep() { return &RankExecutor::RunBackendStep; }
#else
auto WholeProgram() { return &RankExecutor::Run; }
#endif

}  // namespace meshseal::runtime
