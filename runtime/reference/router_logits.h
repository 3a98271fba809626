// The router's logits of a token, for the steps that weigh experts by them.
#ifndef MESHSEAL_RUNTIME_REFERENCE_ROUTER_LOGITS_H_
#define MESHSEAL_RUNTIME_REFERENCE_ROUTER_LOGITS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/weights/weight_matrix.h"
#include "schema/terms.h"

namespace meshseal::runtime {

// One logit per row of `weight` [E, H], plus `bias` [E] or empty; operands and result rounded to `input`. `token` is
// the caller's number of the row `x` [H]. Reason kNonFinite, naming token and expert.
absl::StatusOr<std::vector<float>> RouterLogits(Basis input, const WeightMatrix& weight, absl::Span<const float> bias,
                                                absl::Span<const float> x, uint64_t token);

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_REFERENCE_ROUTER_LOGITS_H_
