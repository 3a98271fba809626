// What is wrong with a request, before any rank sees it.
#ifndef MESHSEAL_RUNTIME_SESSION_CHECK_REQUEST_H_
#define MESHSEAL_RUNTIME_SESSION_CHECK_REQUEST_H_

#include "absl/status/status.h"
#include "runtime/session/run_request.h"
#include "schema/plan.h"

namespace meshseal::runtime {

// Everything but how many tokens there are, which TokenBands checks. Reason kUsage.
absl::Status CheckRequest(const Plan& plan, const RunRequest& request);

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_SESSION_CHECK_REQUEST_H_
