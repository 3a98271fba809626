// What gate_up, gate_up_grouped and shared_gate_up do with a row.
#ifndef MESHSEAL_RUNTIME_REFERENCE_GATE_UP_PRODUCT_H_
#define MESHSEAL_RUNTIME_REFERENCE_GATE_UP_PRODUCT_H_

#include "absl/types/span.h"
#include "runtime/reference/dot.h"
#include "runtime/weights/rank_weights.h"

namespace meshseal::runtime {

// `out`: gate columns, then up columns; up columns alone of an expert without a gate. Biases are added to the rounded
// products, in float32.
inline void GateUpProduct(const ExpertWeights& expert, absl::Span<const float> x, absl::Span<float> out) {
  MultiplyAdd(expert.gate, expert.gate_bias, x, out.first(expert.gate.rows));
  MultiplyAdd(expert.up, expert.up_bias, x, out.subspan(expert.gate.rows));
}

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_REFERENCE_GATE_UP_PRODUCT_H_
