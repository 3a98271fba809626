// Weighted sum over each token's owned slots.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "runtime/reference/dot.h"
#include "runtime/reference/reference_backend.h"

namespace meshseal::runtime {

absl::Status ReferenceBackend::Combine(const CombineArgs& args) {
  const StepShape& shape = args.shape;
  for (uint32_t token = 0; token < shape.tokens; ++token) {
    const absl::Span<float> out = RowOf(args.out, token, shape.hidden);
    std::fill(out.begin(), out.end(), 0.0f);
    for (uint32_t j = 0; j < shape.top_k; ++j) {
      const uint64_t slot = uint64_t{token} * shape.top_k + j;
      if (args.owned.LocalExpert(slot) < 0) continue;
      const float weight = args.owned.routing.weights[slot];
      const absl::Span<const float> y = RowOf(args.slots, slot, shape.hidden);
      for (uint32_t h = 0; h < shape.hidden; ++h) out[h] = std::fma(weight, y[h], out[h]);
    }
  }
  return absl::OkStatus();
}

}  // namespace meshseal::runtime
