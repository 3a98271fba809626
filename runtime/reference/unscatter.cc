// Grouped rows back to slot rows.
#include <algorithm>
#include <cstdint>

#include "runtime/reference/dot.h"
#include "runtime/reference/reference_backend.h"

namespace meshseal::runtime {

absl::Status ReferenceBackend::Unscatter(const UnscatterArgs& args) {
  const uint64_t width = args.shape.products();
  for (uint64_t slot = 0; slot < args.shape.slots(); ++slot) {
    const int32_t row = args.grouping.row_of_slot[slot];
    if (row < 0) continue;
    const absl::Span<const float> from = RowOf(args.rows, static_cast<uint64_t>(row), width);
    std::copy(from.begin(), from.end(), RowOf(args.out, slot, width).begin());
  }
  return absl::OkStatus();
}

}  // namespace meshseal::runtime
