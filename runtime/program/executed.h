// What this version's executor and backends execute of what a plan can say. A plan that asks for more is refused by
// name before a rank reserves anything.
#ifndef MESHSEAL_RUNTIME_PROGRAM_EXECUTED_H_
#define MESHSEAL_RUNTIME_PROGRAM_EXECUTED_H_

#include "absl/status/status.h"
#include "schema/plan.h"
#include "schema/step.h"

namespace meshseal::runtime {

// Whether ranks execute a step; a backend has a virtual for each that is no communication.
constexpr bool IsExecuted(StepKind kind) {
  switch (kind) {
    case StepKind::kRoute:
    case StepKind::kRouteByTable:
    case StepKind::kRouteGiven:
    case StepKind::kScatter:
    case StepKind::kGateUp:
    case StepKind::kGateUpGrouped:
    case StepKind::kUnscatter:
    case StepKind::kActivation:
    case StepKind::kDown:
    case StepKind::kSharedGateUp:
    case StepKind::kSharedActivation:
    case StepKind::kSharedDown:
    case StepKind::kCombine:
    case StepKind::kCombineShared:
    case StepKind::kCollective:
    case StepKind::kResidual:
      return true;
    case StepKind::kGather:
    case StepKind::kInvalid:
      return false;
  }
  return false;
}

// OK, or reason kNotBuilt with everything in `plan` that is not executed.
absl::Status CheckExecuted(const Plan& plan);

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_PROGRAM_EXECUTED_H_
