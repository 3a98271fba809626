// What is said where ranks need more memory than their device has. Internal to the budget stage.
#ifndef MESHSEAL_COMPILER_BUDGET_MEMORY_REFUSAL_H_
#define MESHSEAL_COMPILER_BUDGET_MEMORY_REFUSAL_H_

#include <vector>

#include "compiler/check/checked_model.h"
#include "compiler/placement/placement.h"
#include "compiler/text/diagnostic.h"
#include "schema/plan.h"

namespace meshseal::compiler {

// Reports memory-fits for every device whose ranks (of a host: those of all its slots) need more than it has: how much
// is missing, the largest rank's lines, the fields that would make the largest of them smaller, and what stays free on
// other devices of the same expert group.
void CheckMemoryFits(const CheckedModel& checked, const Placement& placement, const std::vector<RankMemory>& ranks,
                     Diagnostics& diagnostics);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_BUDGET_MEMORY_REFUSAL_H_
