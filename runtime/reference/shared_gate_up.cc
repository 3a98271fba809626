// Gate and up products of every token with the shared expert.
#include <cstdint>
#include <vector>

#include "runtime/reference/dot.h"
#include "runtime/reference/reference_backend.h"

namespace meshseal::runtime {

absl::Status ReferenceBackend::SharedGateUp(const SharedGateUpArgs& args) {
  const SharedWeights& shared = args.shared;
  const uint64_t products = uint64_t{shared.gate.rows} + shared.up.rows;
  for (uint32_t token = 0; token < args.shape.tokens; ++token) {
    const std::vector<float> x = ToBasis(args.basis, RowOf(args.x, token, args.shape.hidden));
    const absl::Span<float> out = RowOf(args.out, token, products);
    Multiply(shared.gate, x, out.first(shared.gate.rows));
    Multiply(shared.up, x, out.subspan(shared.gate.rows));
  }
  return absl::OkStatus();
}

}  // namespace meshseal::runtime
