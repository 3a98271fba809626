// Down product, slot by slot, of an exact sum: weighted, and fixed point by segments.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/backend/refusals.h"
#include "runtime/reference/dot.h"
#include "runtime/reference/exact_addends.h"
#include "runtime/reference/reference_backend.h"

namespace meshseal::runtime {

absl::Status ReferenceBackend::DownExact(const DownExactArgs& args) {
  const StepShape& shape = args.shape;
  for (uint64_t slot = 0; slot < shape.slots(); ++slot) {
    const int32_t local = args.owned.LocalExpert(slot);
    if (local < 0) continue;
    const ExpertWeights& expert = args.experts[static_cast<size_t>(local)];
    const absl::Span<int64_t> out = RowOf(args.out, slot, shape.hidden);
    std::fill(out.begin(), out.end(), 0);
    const float weight = args.weighs ? args.owned.routing.weights[slot] : 1;
    std::optional<float> refused =
        AddProducts(args.fixed_point, args.segment_ends, expert.down,
                    ToBasis(args.basis, RowOf(args.activations, slot, shape.columns)), weight, out);
    const std::vector<float> bias = VectorOf(args.adds_bias ? expert.down_bias : WeightMatrix{});
    for (size_t h = 0; h < bias.size() && !refused.has_value(); ++h) {
      refused = AddExact(args.fixed_point, weight, bias[h], &out[h]);
    }
    if (refused.has_value()) {
      return RefuseAddend(args.fixed_point, shape.first_token + slot / shape.top_k,
                          ExpertText(static_cast<uint64_t>(args.owned.routing.experts[slot])), *refused);
    }
    ++args.counters->down_slots;
  }
  return absl::OkStatus();
}

}  // namespace meshseal::runtime
