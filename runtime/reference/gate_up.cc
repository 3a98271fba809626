// Gate and up products, slot by slot.
#include <cstdint>
#include <vector>

#include "runtime/reference/dot.h"
#include "runtime/reference/reference_backend.h"

namespace meshseal::runtime {

absl::Status ReferenceBackend::GateUp(const GateUpArgs& args) {
  const StepShape& shape = args.shape;
  for (uint64_t slot = 0; slot < shape.slots(); ++slot) {
    const int32_t local = args.owned.LocalExpert(slot);
    if (local < 0) continue;
    const ExpertWeights& expert = args.experts[static_cast<size_t>(local)];
    const std::vector<float> x = ToBasis(args.basis, RowOf(args.x, slot / shape.top_k, shape.hidden));
    const absl::Span<float> out = RowOf(args.out, slot, 2 * uint64_t{shape.columns});
    Multiply(expert.gate, x, out.first(shape.columns));
    Multiply(expert.up, x, out.subspan(shape.columns));
    ++args.counters->gate_up_slots;
  }
  return absl::OkStatus();
}

}  // namespace meshseal::runtime
