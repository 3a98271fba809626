// What a search over parallel degrees tries, largest first.
#ifndef MESHSEAL_COMPILER_DRIVER_ALL_DEGREES_H_
#define MESHSEAL_COMPILER_DRIVER_ALL_DEGREES_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "compiler/manifest/manifest.h"

namespace meshseal::compiler {

inline std::vector<uint64_t> Divisors(uint64_t number) {
  std::vector<uint64_t> divisors;
  for (uint64_t d = number; d > 0; --d) {
    if (number % d == 0) divisors.push_back(d);
  }
  return divisors;
}

// Tokens of a rank are said only where ranks of an expert group bring different ones.
inline void SetDenseTp(uint64_t dense_tp, Deployment& deployment) {
  deployment.dense_tp.value = dense_tp;
  if (dense_tp == deployment.tp.value * deployment.ep.value) deployment.rank_tokens.reset();
}

// Calls `visit` with each (dp, pp, tp, ep) of `world` ranks in turn in `deployment`, by dp, then pp, then tp.
inline void ForAllDegrees(uint64_t world, Deployment& deployment, absl::FunctionRef<void()> visit) {
  for (const uint64_t dp : Divisors(world)) {
    for (const uint64_t pp : Divisors(world / dp)) {
      for (const uint64_t tp : Divisors(world / dp / pp)) {
        deployment.dp.value = dp;
        deployment.pp.value = pp;
        deployment.tp.value = tp;
        deployment.ep.value = world / dp / pp / tp;
        visit();
      }
    }
  }
}

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_DRIVER_ALL_DEGREES_H_
