// The sum over a token's owned slots, then the shared expert's row, which no routing weight reaches.
#include <cstddef>

#include "runtime/reference/reference_backend.h"
#include "runtime/reference/slot_sum.h"

namespace meshseal::runtime {

absl::Status ReferenceBackend::CombineShared(const CombineSharedArgs& args) {
  SumSlots(args.combine);
  for (size_t i = 0; i < args.shared.size(); ++i) args.combine.out[i] += args.shared[i];
  return absl::OkStatus();
}

}  // namespace meshseal::runtime
