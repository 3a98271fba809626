// Logits, and what the router's rule makes of them.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/backend/refusals.h"
#include "runtime/reference/dot.h"
#include "runtime/reference/reference_backend.h"
#include "runtime/reference/router_logits.h"
#include "runtime/reference/router_rule.h"
#include "schema/status_macros.h"

namespace meshseal::runtime {

absl::Status ReferenceBackend::Route(const RouteArgs& args) {
  const StepShape& shape = args.shape;
  const std::vector<float> bias = VectorOf(args.bias);
  const std::vector<float> selection_bias = VectorOf(args.selection_bias);
  for (uint32_t token = 0; token < shape.tokens; ++token) {
    MESHSEAL_ASSIGN_OR_RETURN(const std::vector<float> logits,
                              RouterLogits(args.router.input, args.weight, bias, RowOf(args.x, token, shape.hidden),
                                           shape.first_token + token));
    const std::vector<float> ranks = RanksOf(args.router, logits, selection_bias);
    for (size_t expert = 0; expert < ranks.size(); ++expert) {
      if (!std::isfinite(ranks[expert])) return RefuseScore(shape.first_token + token, expert);
    }
    const Selection selection = SelectExperts(args.router, logits, selection_bias, shape.top_k);
    const uint64_t slot = uint64_t{token} * shape.top_k;
    std::copy(selection.experts.begin(), selection.experts.end(), args.experts.subspan(slot, shape.top_k).begin());
    std::copy(selection.weights.begin(), selection.weights.end(), args.weights.subspan(slot, shape.top_k).begin());
  }
  return absl::OkStatus();
}

}  // namespace meshseal::runtime
