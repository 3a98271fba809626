// The shared expert's own gate. It reads x unrounded; its sigmoid is float64, rounded once.
#ifndef MESHSEAL_RUNTIME_REFERENCE_SHARED_GATE_H_
#define MESHSEAL_RUNTIME_REFERENCE_SHARED_GATE_H_

#include "absl/types/span.h"
#include "runtime/numerics/router_scores.h"
#include "runtime/reference/dot.h"

namespace meshseal::runtime {

inline float SharedGateOf(absl::Span<const float> gate, absl::Span<const float> x) {
  return static_cast<float>(Sigmoid(static_cast<double>(Dot(x, gate))));
}

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_REFERENCE_SHARED_GATE_H_
