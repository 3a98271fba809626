// Down product, slot by slot.
#include <cstdint>

#include "runtime/reference/dot.h"
#include "runtime/reference/reference_backend.h"

namespace meshseal::runtime {

absl::Status ReferenceBackend::Down(const DownArgs& args) {
  const StepShape& shape = args.shape;
  for (uint64_t slot = 0; slot < shape.slots(); ++slot) {
    const int32_t local = args.owned.LocalExpert(slot);
    if (local < 0) continue;
    Multiply(args.experts[static_cast<size_t>(local)].down,
             ToBasis(args.basis, RowOf(args.activations, slot, shape.columns)), RowOf(args.out, slot, shape.hidden));
    ++args.counters->down_slots;
  }
  return absl::OkStatus();
}

}  // namespace meshseal::runtime
