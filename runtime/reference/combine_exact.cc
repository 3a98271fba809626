// Sums of integers: the same in any order.
#include <algorithm>
#include <cstdint>

#include "runtime/reference/dot.h"
#include "runtime/reference/reference_backend.h"

namespace meshseal::runtime {

absl::Status ReferenceBackend::CombineExact(const CombineExactArgs& args) {
  const StepShape& shape = args.shape;
  std::fill(args.out.begin(), args.out.end(), 0);
  for (uint64_t slot = 0; slot < shape.slots(); ++slot) {
    if (args.owned.LocalExpert(slot) < 0) continue;
    const absl::Span<const int64_t> addend = RowOf(args.slots, slot, shape.hidden);
    const absl::Span<int64_t> out = RowOf(args.out, slot / shape.top_k, shape.hidden);
    for (uint32_t h = 0; h < shape.hidden; ++h) out[h] += addend[h];
  }
  return absl::OkStatus();
}

absl::Status ReferenceBackend::CombineSharedExact(const CombineSharedExactArgs& args) {
  const absl::Status combined = CombineExact(args.combine);
  for (size_t i = 0; combined.ok() && i < args.shared.size(); ++i) args.combine.out[i] += args.shared[i];
  return combined;
}

}  // namespace meshseal::runtime
