// PlanDraft: the complete content of a plan, not sealed yet. Only Lower makes one.
#ifndef MESHSEAL_COMPILER_LOWERING_PLAN_DRAFT_H_
#define MESHSEAL_COMPILER_LOWERING_PLAN_DRAFT_H_

#include <utility>

#include "compiler/budget/memory_plan.h"
#include "compiler/check/checked_model.h"
#include "compiler/placement/placement.h"
#include "schema/plan.h"

namespace meshseal::compiler {

class PlanDraft {
 public:
  const Plan& plan() const { return plan_; }

 private:
  friend PlanDraft Lower(const CheckedModel&, const Placement&, const MemoryPlan&);
  explicit PlanDraft(Plan plan) : plan_(std::move(plan)) {}

  Plan plan_;
};

// Turns each phase's dataflow into typed steps with their weights, the one collective and the lines they come from.
PlanDraft Lower(const CheckedModel& checked, const Placement& placement, const MemoryPlan& memory);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_LOWERING_PLAN_DRAFT_H_
