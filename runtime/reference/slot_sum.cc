#include "runtime/reference/slot_sum.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "runtime/backend/refusals.h"
#include "runtime/reference/dot.h"

namespace meshseal::runtime {

bool AllFinite(absl::Span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
}

absl::Status SumSlots(const CombineArgs& args) {
  const StepShape& shape = args.shape;
  for (uint32_t token = 0; token < shape.tokens; ++token) {
    const absl::Span<float> out = RowOf(args.out, token, shape.hidden);
    std::fill(out.begin(), out.end(), 0.0f);
    for (uint32_t j = 0; j < shape.top_k; ++j) {
      const uint64_t slot = uint64_t{token} * shape.top_k + j;
      if (args.owned.LocalExpert(slot) < 0) continue;
      const float weight = args.weighs ? args.owned.routing.weights[slot] : 1;
      const absl::Span<const float> y = RowOf(args.slots, slot, shape.hidden);
      if (!AllFinite(y)) {
        const auto expert = static_cast<uint64_t>(args.owned.routing.experts[slot]);
        return RefuseOutput(shape.first_token + token, ExpertText(expert));
      }
      for (uint32_t h = 0; h < shape.hidden; ++h) out[h] = std::fma(weight, y[h], out[h]);
    }
  }
  return absl::OkStatus();
}

}  // namespace meshseal::runtime
