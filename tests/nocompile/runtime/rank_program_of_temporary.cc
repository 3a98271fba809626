// A rank program that outlives its plan.
// AS: tools/run/main.cc
// EXPECT-gcc: use of deleted function
// EXPECT-clang: call to deleted function 'BindProgram'
#include <utility>

#include "runtime/program/rank_program.h"

namespace meshseal::runtime {

#ifdef MESHSEAL_BYPASS
auto Bind(SealedPlan plan) { return BindProgram(std::move(plan), 0, 0, Phase::kDecode); }
#else
auto Bind(const SealedPlan& plan) { return BindProgram(plan, 0, 0, Phase::kDecode); }
#endif

}  // namespace meshseal::runtime
