// An executor over memory that was not reserved.
// AS: tools/run/main.cc
// EXPECT-gcc: is private within this context
// EXPECT-clang: calling a private constructor of class
#include "runtime/execute/rank_executor.h"

namespace meshseal::runtime {

std::unique_ptr<RankExecutor> Make(Arena arena, Backend& backend, Communicator& group) {
#ifdef MESHSEAL_BYPASS
  return std::unique_ptr<RankExecutor>(new RankExecutor(std::move(arena), backend, group, ExecutorOptions()));
#else
  return *RankExecutor::Reserve(arena.bytes().size(), backend, group, ExecutorOptions());
#endif
}

}  // namespace meshseal::runtime
