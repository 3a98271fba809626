// A difference as JSON for scripts: versioned and stable, every field of plan_diff.h under its name. Bytes and ranks
// are numbers, ranges half-open {"first", "last"}; what a plan does not have is null.
#ifndef MESHSEAL_SCHEMA_PLAN_DIFF_JSON_H_
#define MESHSEAL_SCHEMA_PLAN_DIFF_JSON_H_

#include <string>

#include "schema/plan_diff.h"

namespace meshseal {

// `diff` is null when a file could not be read as far as a plan: then "relation" is "unknown".
std::string PlanDiffJson(const Both<PlanFile>& files, const PlanDiff* diff);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_PLAN_DIFF_JSON_H_
