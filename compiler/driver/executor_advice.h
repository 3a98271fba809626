// What this version's executors do not do of what a plan asks for, said when the plan is made.
#ifndef MESHSEAL_COMPILER_DRIVER_EXECUTOR_ADVICE_H_
#define MESHSEAL_COMPILER_DRIVER_EXECUTOR_ADVICE_H_

#include <optional>

#include "compiler/check/checked_model.h"
#include "compiler/text/diagnostic.h"
#include "schema/executors.h"
#include "schema/plan.h"

namespace meshseal::compiler {

// Gaps of the executor that `required` names; where it names none, of the mesh's own, and then most of them are
// warnings (executor-takes-plan): somebody else may execute the plan. What a device cannot do is an error either way
// (kernels-fit-device). Warns also (collectives-are-captured) where programs are to be captured and cannot be.
void CheckExecutor(const CheckedModel& checked, const Plan& plan, std::optional<ExecutorKind> required,
                   Diagnostics& diagnostics);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_DRIVER_EXECUTOR_ADVICE_H_
