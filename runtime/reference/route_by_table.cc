// Experts by token id, weighed by the router's rule.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/backend/routing_checks.h"
#include "runtime/reference/dot.h"
#include "runtime/reference/reference_backend.h"
#include "runtime/reference/router_logits.h"
#include "runtime/reference/router_rule.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::runtime {

absl::Status ReferenceBackend::RouteByTable(const RouteByTableArgs& args) {
  const StepShape& shape = args.shape;
  MESHSEAL_RETURN_IF_ERROR(CheckTokenIds(args.token_ids, args.table.rows, shape.first_token));
  const std::vector<float> bias = VectorOf(args.bias);
  for (uint32_t token = 0; token < shape.tokens; ++token) {
    const auto id = static_cast<uint32_t>(args.token_ids[token]);
    std::vector<int64_t> selected;
    for (uint32_t j = 0; j < shape.top_k; ++j) selected.push_back(args.table.Entry(id, j));
    if (const std::optional<std::string> fault = FaultOfSelected(selected, args.weight.rows)) {
      return Refuse(Reason::kWeightsTensor, absl::StrCat("token ", shape.first_token + token,
                                                         ": the token table's row ", id, " selects ", *fault));
    }
    MESHSEAL_ASSIGN_OR_RETURN(const std::vector<float> logits,
                              RouterLogits(args.router.input, args.weight, bias, RowOf(args.x, token, shape.hidden),
                                           shape.first_token + token));
    const uint64_t slot = uint64_t{token} * shape.top_k;
    const absl::Span<int32_t> experts = args.experts.subspan(slot, shape.top_k);
    std::transform(selected.begin(), selected.end(), experts.begin(),
                   [](int64_t expert) { return static_cast<int32_t>(expert); });
    const Selection selection = WeighExperts(args.router, logits, experts);
    std::copy(selection.weights.begin(), selection.weights.end(), args.weights.subspan(slot, shape.top_k).begin());
  }
  return absl::OkStatus();
}

}  // namespace meshseal::runtime
