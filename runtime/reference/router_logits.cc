#include "runtime/reference/router_logits.h"

#include <cmath>
#include <cstddef>

#include "runtime/backend/refusals.h"
#include "runtime/reference/dot.h"

namespace meshseal::runtime {

absl::StatusOr<std::vector<float>> RouterLogits(Basis input, const WeightMatrix& weight, absl::Span<const float> bias,
                                                absl::Span<const float> x, uint64_t token) {
  std::vector<float> logits(weight.rows);
  Multiply(weight, ToBasis(input, x), absl::MakeSpan(logits));
  for (size_t expert = 0; expert < bias.size(); ++expert) logits[expert] += bias[expert];
  ToBasis(input, absl::MakeSpan(logits));
  for (size_t expert = 0; expert < logits.size(); ++expert) {
    if (std::isfinite(logits[expert])) continue;
    return RefuseScore(token, expert);
  }
  return logits;
}

}  // namespace meshseal::runtime
