// SwiGLU: silu(gate) * up.
#include <cmath>
#include <cstdint>

#include "runtime/reference/dot.h"
#include "runtime/reference/reference_backend.h"

namespace meshseal::runtime {
namespace {

// In float64, rounded once.
float SwiGlu(float gate, float up) {
  const auto g = static_cast<double>(gate);
  return static_cast<float>(g / (1 + std::exp(-g)) * static_cast<double>(up));
}

}  // namespace

absl::Status ReferenceBackend::Activation(const ActivationArgs& args) {
  const uint64_t columns = args.shape.columns;
  for (uint64_t slot = 0; slot < args.shape.slots(); ++slot) {
    if (args.owned.LocalExpert(slot) < 0) continue;
    const absl::Span<const float> gate_up = RowOf(args.gate_up, slot, 2 * columns);
    const absl::Span<float> out = RowOf(args.out, slot, columns);
    for (uint64_t c = 0; c < columns; ++c) out[c] = SwiGlu(gate_up[c], gate_up[columns + c]);
  }
  return absl::OkStatus();
}

}  // namespace meshseal::runtime
