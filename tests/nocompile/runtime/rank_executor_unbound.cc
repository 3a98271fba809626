// A program of a plan, run without having been bound to a rank.
// AS: tools/run/main.cc
// EXPECT-gcc: cannot convert 'const meshseal::Program' to 'const meshseal::runtime::RankProgram&'
// EXPECT-clang: no viable conversion
#include "runtime/execute/rank_executor.h"

namespace meshseal::runtime {

absl::Status Go(RankExecutor& executor, const Program& unbound, const RankProgram& bound, const LayerWeights& weights) {
  (void)unbound, (void)bound;
  StepCounters counters;
#ifdef MESHSEAL_BYPASS
  return executor.Run(unbound, weights, {}, {}, &counters);
#else
  return executor.Run(bound, weights, {}, {}, &counters);
#endif
}

}  // namespace meshseal::runtime
