// Gate and up products, expert by expert.
#include <cstdint>
#include <vector>

#include "runtime/reference/dot.h"
#include "runtime/reference/reference_backend.h"

namespace meshseal::runtime {

absl::Status ReferenceBackend::GateUpGrouped(const GateUpGroupedArgs& args) {
  const StepShape& shape = args.shape;
  for (size_t local = 0; local < args.experts.size(); ++local) {
    const ExpertWeights& expert = args.experts[local];
    const auto first = static_cast<uint64_t>(args.grouping.first_row[local]);
    const auto last = static_cast<uint64_t>(args.grouping.first_row[local + 1]);
    for (uint64_t row = first; row < last; ++row) {
      if (args.grouping.slot_of_row[row] < 0) continue;  // padding
      const std::vector<float> x = ToBasis(args.basis, RowOf(args.rows, row, shape.hidden));
      const absl::Span<float> out = RowOf(args.out, row, 2 * uint64_t{shape.columns});
      Multiply(expert.gate, x, out.first(shape.columns));
      Multiply(expert.up, x, out.subspan(shape.columns));
      ++args.counters->gate_up_slots;
    }
  }
  return absl::OkStatus();
}

}  // namespace meshseal::runtime
