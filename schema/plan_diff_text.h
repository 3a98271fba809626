// A difference as a reviewer reads it: a screenful in the usual case. Long lists are cut, and say so. It may change
// between versions; scripts read plan_diff_json.h.
#ifndef MESHSEAL_SCHEMA_PLAN_DIFF_TEXT_H_
#define MESHSEAL_SCHEMA_PLAN_DIFF_TEXT_H_

#include <string>

#include "schema/plan_diff.h"

namespace meshseal {

// `diff` is null when a file could not be read as far as a plan: then only the files are told.
std::string PlanDiffText(const Both<PlanFile>& files, const PlanDiff* diff);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_PLAN_DIFF_TEXT_H_
