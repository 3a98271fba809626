// The sum that both ways to combine begin with.
#ifndef MESHSEAL_RUNTIME_REFERENCE_SLOT_SUM_H_
#define MESHSEAL_RUNTIME_REFERENCE_SLOT_SUM_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/types/span.h"
#include "runtime/backend/step_args.h"
#include "runtime/reference/dot.h"

namespace meshseal::runtime {

// Each token's owned slots, in slot order; exact zeros for a token without one.
inline void SumSlots(const CombineArgs& args) {
  const StepShape& shape = args.shape;
  for (uint32_t token = 0; token < shape.tokens; ++token) {
    const absl::Span<float> out = RowOf(args.out, token, shape.hidden);
    std::fill(out.begin(), out.end(), 0.0f);
    for (uint32_t j = 0; j < shape.top_k; ++j) {
      const uint64_t slot = uint64_t{token} * shape.top_k + j;
      if (args.owned.LocalExpert(slot) < 0) continue;
      const float weight = args.weighs ? args.owned.routing.weights[slot] : 1;
      const absl::Span<const float> y = RowOf(args.slots, slot, shape.hidden);
      for (uint32_t h = 0; h < shape.hidden; ++h) out[h] = std::fma(weight, y[h], out[h]);
    }
  }
}

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_REFERENCE_SLOT_SUM_H_
