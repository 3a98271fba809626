// An executor over memory that was not reserved.
// AS: tools/run/main.cc
// EXPECT-gcc: is private within this context
// EXPECT-clang: calling a private constructor of class
#include "runtime/execute/rank_executor.h"

namespace meshseal::runtime {

RankExecutor Make(Arena arena, Backend& backend, Communicator& group) {
#ifdef MESHSEAL_BYPASS
  return RankExecutor(std::move(arena), backend, group, RankExecutor::Options());
#else
  return *RankExecutor::Reserve(arena.bytes().size(), backend, group, RankExecutor::Options());
#endif
}

}  // namespace meshseal::runtime
