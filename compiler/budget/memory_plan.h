// MemoryPlan: what every rank needs, in bytes, with proven capacities, against what its device has. Only Budget makes
// one, and only when everything fits.
#ifndef MESHSEAL_COMPILER_BUDGET_MEMORY_PLAN_H_
#define MESHSEAL_COMPILER_BUDGET_MEMORY_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/budget/dataflow.h"
#include "compiler/check/checked_model.h"
#include "compiler/placement/placement.h"
#include "compiler/text/diagnostic.h"
#include "schema/plan.h"

namespace meshseal::compiler {

// A phase of a class of layers: its dataflow, the most tokens of a step, and a work arena for each shape of rank.
struct PhaseBudget {
  Phase phase = Phase::kInvalid;
  uint32_t max_tokens = 0;  // of the expert group
  uint32_t tile_rows = 0;   // 0 where nothing is scattered
  uint32_t index_bits = 0;  // 32 where no value has more elements than that counts, else 64
  ReduceAlgorithm reduce_algorithm = ReduceAlgorithm::kInvalid;
  Dataflow flow;
  std::vector<WorkLayout> layouts;  // by (experts, columns, shared columns), ascending
};

class MemoryPlan {
 public:
  const std::vector<std::vector<PhaseBudget>>& classes() const { return classes_; }  // phases per class of layers
  const std::vector<RankMemory>& ranks() const { return ranks_; }                    // per world rank

 private:
  friend std::optional<MemoryPlan> Budget(const CheckedModel&, const Placement&, Diagnostics&);
  MemoryPlan() = default;

  std::vector<std::vector<PhaseBudget>> classes_;
  std::vector<RankMemory> ranks_;
};

// The lines of a rank's memory that are not 0, without their total: "weights 3.4 MiB, decode work 1.1 MiB, ...".
std::string LinesText(const RankMemory& memory);

// The most rows that `tokens` tokens can scatter to a rank with `experts` experts, when each expert's rows are padded
// to whole tiles. A token has distinct experts, so at most min(top_k, experts) of its slots arrive; N rows on at most A
// experts fill at most A + floor((N - A) / tile) tiles, and no expert gets more than all tokens.
uint64_t GroupedRows(uint64_t tokens, uint64_t top_k, uint64_t experts, uint64_t tile);

// The most tokens of a step of the phase: of the whole expert group, and of one dense group.
uint32_t GroupTokens(const Deployment& deployment, Phase phase);
uint32_t RankTokens(const Deployment& deployment, Phase phase);

// Whether the ranks of an expert group bring different tokens.
inline bool Gathers(const Degrees& degrees) { return degrees.dense_tp < degrees.tp * degrees.ep; }

// How the collective of a program of at most `tokens` tokens of the expert group moves its bytes. The one choice that
// depends on size is that of an ordered sum: gathering brings a rank all addends of the others in one round of
// messages, exchanging brings it their slices and then the others' sums, in two rounds. `hidden` is below 2^32.
ReduceAlgorithm ReduceAlgorithmOf(Reduction reduction, const Degrees& degrees, uint32_t tokens, uint64_t hidden);

// Reports memory-fits for every device whose ranks need more than it has.
std::optional<MemoryPlan> Budget(const CheckedModel& checked, const Placement& placement, Diagnostics& diagnostics);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_BUDGET_MEMORY_PLAN_H_
