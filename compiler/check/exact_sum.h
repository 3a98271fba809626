// The fixed point of an exact sum: an int64 in which neither the largest addend nor the number of addends overflows.
#ifndef MESHSEAL_COMPILER_CHECK_EXACT_SUM_H_
#define MESHSEAL_COMPILER_CHECK_EXACT_SUM_H_

#include <cstdint>

#include "compiler/manifest/manifest.h"

namespace meshseal::compiler {

inline constexpr int kFixedPointBits = 62;  // of an int64 whose sum must not overflow

// The canonical column segments of the shared expert.
inline const Spanned<uint64_t>& SharedSegments(const Deployment& deployment) {
  return deployment.exact_shared_segments.has_value() ? *deployment.exact_shared_segments : deployment.exact_segments;
}

// The most addends of one output element: a slot gives one a segment, the shared expert likewise, a down bias one a
// slot: the same of every world.
uint64_t ExactAddends(const MoeSpec& moe, const Deployment& deployment);

// Bits behind the point when every addend is below the deployment's bound, which is at least 1; below 1 where the bound
// is too large.
int ExactFractionBits(const MoeSpec& moe, const Deployment& deployment);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_CHECK_EXACT_SUM_H_
