// MemoryPlan: what every rank needs, in bytes, with proven capacities, against what its device has. Only Budget makes
// one, and only when everything fits.
#ifndef MESHSEAL_COMPILER_BUDGET_MEMORY_PLAN_H_
#define MESHSEAL_COMPILER_BUDGET_MEMORY_PLAN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/budget/dataflow.h"
#include "compiler/check/checked_model.h"
#include "compiler/placement/placement.h"
#include "compiler/text/diagnostic.h"
#include "schema/plan.h"

namespace meshseal::compiler {

// A phase of a group's layers: its dataflow, the most tokens of a step, and a work arena for each shape of rank.
struct PhaseBudget {
  Phase phase = Phase::kInvalid;
  uint32_t max_tokens = 0;
  uint32_t tile_rows = 0;  // 0 where nothing is scattered
  Dataflow flow;
  std::vector<WorkLayout> layouts;  // by (experts, columns), ascending
};

class MemoryPlan {
 public:
  const std::vector<std::vector<PhaseBudget>>& groups() const { return groups_; }  // phases per group of the manifest
  const std::vector<RankMemory>& ranks() const { return ranks_; }                  // per world rank

 private:
  friend std::optional<MemoryPlan> Budget(const CheckedModel&, const Placement&, Diagnostics&);
  MemoryPlan() = default;

  std::vector<std::vector<PhaseBudget>> groups_;
  std::vector<RankMemory> ranks_;
};

// The most rows that `tokens` tokens can scatter to a rank with `experts` experts, when each expert's rows are padded
// to whole tiles. A token has distinct experts, so at most min(top_k, experts) of its slots arrive; N rows on at most A
// experts fill at most A + floor((N - A) / tile) tiles, and no expert gets more than all tokens.
uint64_t GroupedRows(uint64_t tokens, uint64_t top_k, uint64_t experts, uint64_t tile);

// Reports memory-fits for every device whose ranks need more than it has.
std::optional<MemoryPlan> Budget(const CheckedModel& checked, const Placement& placement, Diagnostics& diagnostics);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_BUDGET_MEMORY_PLAN_H_
