// What this version's executor and backends execute of what a plan can say. A plan that asks for more is refused by
// name before a rank reserves anything.
#ifndef MESHSEAL_RUNTIME_PROGRAM_EXECUTED_H_
#define MESHSEAL_RUNTIME_PROGRAM_EXECUTED_H_

#include "absl/status/status.h"
#include "schema/executors.h"
#include "schema/plan.h"
#include "schema/step.h"

namespace meshseal::runtime {

// Whether a step gives fixed point where the sum is exact; a backend has a second virtual for each.
constexpr bool HasExactForm(StepKind kind) {
  return kind == StepKind::kDown || kind == StepKind::kSharedDown || kind == StepKind::kCombine ||
         kind == StepKind::kCombineShared;
}

// OK, or reason kNotBuilt with everything in `plan` that the executor does not execute, and what it does instead.
absl::Status CheckExecuted(const Plan& plan, ExecutorKind executor);

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_PROGRAM_EXECUTED_H_
