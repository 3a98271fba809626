#include "runtime/session/check_request.h"

#include <functional>

#include "absl/strings/str_cat.h"
#include "runtime/backend/routing_checks.h"
#include "runtime/program/rank_facts.h"
#include "schema/reason.h"
#include "schema/status_macros.h"
#include "schema/step.h"

namespace meshseal::runtime {
namespace {

// What of a request only some layers read: token ids and a routing.
absl::Status CheckRouting(const LayerClass& c, const RunRequest& request) {
  const StepKind route = RouteOf(c);
  const auto placed = [&](const absl::Status& status) {
    if (status.ok()) return status;
    return Refuse(*ReasonOf(status), absl::StrCat("layer ", request.layer, ": ", status.message()));
  };
  const auto sized = [&](const char* what, size_t found, bool read, uint64_t expected) -> absl::Status {
    if (!read) expected = 0;
    if (found == expected) return absl::OkStatus();
    return Refuse(Reason::kUsage, absl::StrCat("layer ", request.layer, " reads ", expected, " ", what, ", ", found,
                                               " are given: its routing is ", FindStep(route)->mnemonic));
  };
  const uint64_t slots = uint64_t{request.tokens} * c.top_k;
  const bool by_table = route == StepKind::kRouteByTable;
  const bool given = route == StepKind::kRouteGiven;
  MESHSEAL_RETURN_IF_ERROR(sized("token ids", request.token_ids.size(), by_table, request.tokens));
  MESHSEAL_RETURN_IF_ERROR(sized("expert ids", request.routing.experts.size(), given, slots));
  MESHSEAL_RETURN_IF_ERROR(sized("expert weights", request.routing.weights.size(), given, slots));
  MESHSEAL_RETURN_IF_ERROR(placed(CheckTokenIds(request.token_ids, c.router.vocabulary, 0)));
  return placed(CheckGivenRouting(request.routing, c.top_k, c.experts, 0));
}

}  // namespace

absl::Status CheckRequest(const Plan& plan, const RunRequest& request) {
  const std::optional<uint32_t> layer_class = ClassOfLayer(plan, request.layer);
  if (!layer_class.has_value()) {
    return Refuse(Reason::kUsage, absl::StrCat("layer ", request.layer, " is not a layer with experts of this plan"));
  }
  if (!IsKnown(request.phase)) return Refuse(Reason::kUsage, "a run has the phase decode or prefill");
  const uint64_t elements = uint64_t{request.tokens} * plan.hidden;
  if (request.hidden.size() != elements || request.output.size() != elements) {
    return Refuse(Reason::kUsage,
                  absl::StrCat("hidden has ", request.hidden.size(), " and output ", request.output.size(),
                               " elements, ", request.tokens, " tokens have ", elements));
  }
  const std::less<const float*> before;
  if (elements > 0 && before(request.hidden.data(), request.output.data() + elements) &&
      before(request.output.data(), request.hidden.data() + elements)) {
    return Refuse(Reason::kUsage, "hidden and output overlap");
  }
  return CheckRouting(plan.layer_classes[*layer_class], request);
}

}  // namespace meshseal::runtime
