// Gate and up products, expert by expert.
#include <cstdint>

#include "runtime/reference/dot.h"
#include "runtime/reference/gate_up_product.h"
#include "runtime/reference/reference_backend.h"

namespace meshseal::runtime {

absl::Status ReferenceBackend::GateUpGrouped(const GateUpGroupedArgs& args) {
  const StepShape& shape = args.shape;
  for (size_t local = 0; local < args.experts.size(); ++local) {
    const auto first = static_cast<uint64_t>(args.grouping.first_row[local]);
    const auto last = static_cast<uint64_t>(args.grouping.first_row[local + 1]);
    for (uint64_t row = first; row < last; ++row) {
      if (args.grouping.slot_of_row[row] < 0) continue;  // padding
      GateUpProduct(args.experts[local], ToBasis(args.basis, RowOf(args.rows, row, shape.hidden)),
                    RowOf(args.out, row, shape.products()));
      ++args.counters->gate_up_slots;
    }
  }
  return absl::OkStatus();
}

}  // namespace meshseal::runtime
