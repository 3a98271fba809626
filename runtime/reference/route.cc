// Logits, and what the router's rule makes of them.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/reference/dot.h"
#include "runtime/reference/reference_backend.h"
#include "runtime/reference/router_rule.h"
#include "schema/reason.h"

namespace meshseal::runtime {
namespace {

// The one row of a vector; empty where the layer has none.
std::vector<float> VectorOf(const WeightMatrix& vector) {
  std::vector<float> values(vector.columns);
  if (!values.empty()) vector.Row(0, absl::MakeSpan(values));
  return values;
}

}  // namespace

absl::Status ReferenceBackend::Route(const RouteArgs& args) {
  const StepShape& shape = args.shape;
  const std::vector<float> bias = VectorOf(args.bias);
  const std::vector<float> selection_bias = VectorOf(args.selection_bias);
  std::vector<float> logits(args.weight.rows);
  for (uint32_t token = 0; token < shape.tokens; ++token) {
    Multiply(args.weight, ToBasis(args.router.input, RowOf(args.x, token, shape.hidden)), absl::MakeSpan(logits));
    for (size_t expert = 0; expert < bias.size(); ++expert) logits[expert] += bias[expert];
    logits = ToBasis(args.router.input, logits);
    for (size_t expert = 0; expert < logits.size(); ++expert) {
      if (std::isfinite(logits[expert])) continue;
      return Refuse(Reason::kNonFinite, absl::StrCat("token ", shape.first_token + token,
                                                     ": the router score of expert ", expert, " is not finite"));
    }
    const Selection selection = SelectExperts(args.router, logits, selection_bias, shape.top_k);
    const uint64_t slot = uint64_t{token} * shape.top_k;
    std::copy(selection.experts.begin(), selection.experts.end(), args.experts.subspan(slot, shape.top_k).begin());
    std::copy(selection.weights.begin(), selection.weights.end(), args.weights.subspan(slot, shape.top_k).begin());
  }
  return absl::OkStatus();
}

}  // namespace meshseal::runtime
