// Gate and up products, slot by slot. A weight on the input is multiplied in before x is rounded, in float32.
#include <cstdint>
#include <vector>

#include "runtime/reference/dot.h"
#include "runtime/reference/gate_up_product.h"
#include "runtime/reference/reference_backend.h"

namespace meshseal::runtime {

absl::Status ReferenceBackend::GateUp(const GateUpArgs& args) {
  const StepShape& shape = args.shape;
  for (uint64_t slot = 0; slot < shape.slots(); ++slot) {
    const int32_t local = args.owned.LocalExpert(slot);
    if (local < 0) continue;
    const absl::Span<const float> token = RowOf(args.x, slot / shape.top_k, shape.hidden);
    std::vector<float> x(token.begin(), token.end());
    if (args.weighs) {
      for (float& value : x) value *= args.owned.routing.weights[slot];
    }
    ToBasis(args.basis, absl::MakeSpan(x));
    GateUpProduct(args.experts[static_cast<size_t>(local)], x, RowOf(args.out, slot, shape.products()));
    ++args.counters->gate_up_slots;
  }
  return absl::OkStatus();
}

}  // namespace meshseal::runtime
