// Down product, slot by slot. The bias is added to the rounded product, in float32.
#include <cstdint>

#include "runtime/reference/dot.h"
#include "runtime/reference/reference_backend.h"

namespace meshseal::runtime {

absl::Status ReferenceBackend::Down(const DownArgs& args) {
  const StepShape& shape = args.shape;
  for (uint64_t slot = 0; slot < shape.slots(); ++slot) {
    const int32_t local = args.owned.LocalExpert(slot);
    if (local < 0) continue;
    const ExpertWeights& expert = args.experts[static_cast<size_t>(local)];
    MultiplyAdd(expert.down, args.adds_bias ? expert.down_bias : WeightMatrix{},
                ToBasis(args.basis, RowOf(args.activations, slot, shape.columns)), RowOf(args.out, slot, shape.hidden));
    ++args.counters->down_slots;
  }
  return absl::OkStatus();
}

}  // namespace meshseal::runtime
