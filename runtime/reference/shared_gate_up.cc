// Gate and up products of every token with the shared expert.
#include <cstdint>
#include <vector>

#include "runtime/reference/dot.h"
#include "runtime/reference/gate_up_product.h"
#include "runtime/reference/reference_backend.h"

namespace meshseal::runtime {

absl::Status ReferenceBackend::SharedGateUp(const SharedGateUpArgs& args) {
  ExpertWeights shared;
  shared.gate = args.shared.gate;
  shared.up = args.shared.up;
  const uint64_t products = uint64_t{shared.gate.rows} + shared.up.rows;
  for (uint32_t token = 0; token < args.shape.tokens; ++token) {
    const std::vector<float> x = ToBasis(args.basis, RowOf(args.x, token, args.shape.hidden));
    GateUpProduct(shared, x, RowOf(args.out, token, products));
  }
  return absl::OkStatus();
}

}  // namespace meshseal::runtime
