// The rule by which a token selects its experts, from its router logits on: scores, groups, top-k, weights.
//
// What is compared is float32, as models store scores, and of equals the lower index is taken; functions are float64
// and those of numerics/exact_functions.h; sums are float64 in the order of numerics/interleaved_sum.h, over the
// experts of the softmax or the chosen ones, in their order (sparsemixer: by expert). A weight is rounded once.
// Excluded experts score minus infinity. The families' rules: manifests/LANGUAGE.md, "Router".
#ifndef MESHSEAL_RUNTIME_REFERENCE_ROUTER_RULE_H_
#define MESHSEAL_RUNTIME_REFERENCE_ROUTER_RULE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "schema/plan.h"

namespace meshseal::runtime {

struct Selection {
  std::vector<int32_t> experts;  // highest rank first
  std::vector<float> weights;    // of the same, as multiplied in
};

// What experts are compared by, [E]: their scores or logits, plus the selection bias [E] if there is one. `logits` [E]
// are finite and carry the router's bias already.
std::vector<float> RanksOf(const Router& router, absl::Span<const float> logits,
                           absl::Span<const float> selection_bias);

// `logits` as above, and ranks that are finite, too; `k` at most E.
Selection SelectExperts(const Router& router, absl::Span<const float> logits, absl::Span<const float> selection_bias,
                        uint32_t k);

// The weights of experts that a table selected, in the table's order.
Selection WeighExperts(const Router& router, absl::Span<const float> logits, absl::Span<const int32_t> experts);

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_REFERENCE_ROUTER_RULE_H_
