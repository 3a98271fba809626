// A plan as JSON for scripts: versioned and stable, every field of plan.h under its name.
#ifndef MESHSEAL_SCHEMA_PLAN_JSON_H_
#define MESHSEAL_SCHEMA_PLAN_JSON_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/plan.h"

namespace meshseal {

// `field` is a JSON pointer (RFC 6901) such as /degrees/ep; empty for the whole plan. Reason kUsage for a field that
// does not exist.
absl::StatusOr<std::string> PlanJson(const Plan& plan, absl::string_view id, absl::string_view standing,
                                     absl::string_view field);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_PLAN_JSON_H_
