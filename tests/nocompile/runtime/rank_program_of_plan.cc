// A rank program bound to a plan that nobody sealed.
// AS: tools/run/main.cc
// EXPECT-gcc: no matching function for call to 'BindProgram(
// EXPECT-clang: no matching function for call to 'BindProgram'
#include "runtime/program/rank_program.h"

namespace meshseal::runtime {

#ifdef MESHSEAL_BYPASS
auto Bind(const Plan& plan) { return BindProgram(plan, 0, 0, Phase::kDecode); }
#else
auto Bind(const SealedPlan& plan) { return BindProgram(plan, 0, 0, Phase::kDecode); }
#endif

}  // namespace meshseal::runtime
