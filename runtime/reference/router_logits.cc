#include "runtime/reference/router_logits.h"

#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "runtime/reference/dot.h"
#include "schema/reason.h"

namespace meshseal::runtime {

absl::StatusOr<std::vector<float>> RouterLogits(Basis input, const WeightMatrix& weight, absl::Span<const float> bias,
                                                absl::Span<const float> x, uint64_t token) {
  std::vector<float> logits(weight.rows);
  Multiply(weight, ToBasis(input, x), absl::MakeSpan(logits));
  for (size_t expert = 0; expert < bias.size(); ++expert) logits[expert] += bias[expert];
  ToBasis(input, absl::MakeSpan(logits));
  for (size_t expert = 0; expert < logits.size(); ++expert) {
    if (std::isfinite(logits[expert])) continue;
    return Refuse(Reason::kNonFinite,
                  absl::StrCat("token ", token, ": the router score of expert ", expert, " is not finite"));
  }
  return logits;
}

}  // namespace meshseal::runtime
