// The caller's routing. Its weights are final: no scale and no renormalisation reaches them.
#include <algorithm>

#include "runtime/backend/routing_checks.h"
#include "runtime/reference/reference_backend.h"
#include "schema/status_macros.h"

namespace meshseal::runtime {

absl::Status ReferenceBackend::RouteGiven(const RouteGivenArgs& args) {
  const StepShape& shape = args.shape;
  MESHSEAL_RETURN_IF_ERROR(CheckGivenRouting(args.given, shape.top_k, args.layer_experts, shape.first_token));
  std::copy(args.given.experts.begin(), args.given.experts.end(), args.experts.begin());
  std::copy(args.given.weights.begin(), args.given.weights.end(), args.weights.begin());
  return absl::OkStatus();
}

}  // namespace meshseal::runtime
