// Tokens to rows grouped by local expert. A weight on the input is multiplied in here, in float32.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime/backend/refusals.h"
#include "runtime/reference/dot.h"
#include "runtime/reference/reference_backend.h"

namespace meshseal::runtime {

absl::Status ReferenceBackend::Scatter(const ScatterArgs& args) {
  const StepShape& shape = args.shape;
  std::vector<uint64_t> count(args.local_experts, 0);
  for (uint64_t slot = 0; slot < shape.slots(); ++slot) {
    const int32_t local = args.owned.LocalExpert(slot);
    if (local >= 0) ++count[static_cast<size_t>(local)];
  }
  // Each expert's rows are padded to whole tiles; an expert without a slot takes none.
  std::vector<uint64_t> first_row = {0};
  for (const uint64_t rows : count) {
    first_row.push_back(first_row.back() + (rows + args.tile_rows - 1) / args.tile_rows * args.tile_rows);
  }
  if (first_row.back() > args.slot_of_row.size()) {
    return RefuseRows(first_row.back(), args.slot_of_row.size());
  }
  for (size_t i = 0; i < first_row.size(); ++i) args.first_row[i] = static_cast<int32_t>(first_row[i]);

  std::fill(args.slot_of_row.begin(), args.slot_of_row.end(), -1);
  std::vector<uint64_t> next_row = first_row;
  for (uint64_t slot = 0; slot < shape.slots(); ++slot) {
    const int32_t local = args.owned.LocalExpert(slot);
    if (local < 0) {
      args.row_of_slot[slot] = -1;
      continue;
    }
    const uint64_t row = next_row[static_cast<size_t>(local)]++;
    args.row_of_slot[slot] = static_cast<int32_t>(row);
    args.slot_of_row[row] = static_cast<int32_t>(slot);
    const absl::Span<const float> token = RowOf(args.x, slot / shape.top_k, shape.hidden);
    const absl::Span<float> grouped = RowOf(args.rows, row, shape.hidden);
    std::copy(token.begin(), token.end(), grouped.begin());
    if (!args.weighs) continue;
    for (float& value : grouped) value *= args.owned.routing.weights[slot];
  }
  return absl::OkStatus();
}

}  // namespace meshseal::runtime
