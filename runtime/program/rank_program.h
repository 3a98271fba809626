// A sealed program bound to one rank: every number that the executor needs is resolved, nothing is decided
// later.
#ifndef MESHSEAL_RUNTIME_PROGRAM_RANK_PROGRAM_H_
#define MESHSEAL_RUNTIME_PROGRAM_RANK_PROGRAM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/program/fixed_point.h"
#include "runtime/program/rank_facts.h"
#include "schema/mesh_view.h"
#include "schema/plan.h"
#include "schema/sealed_plan.h"
#include "schema/step.h"

namespace meshseal::runtime {

// A step with the places of its operands in the work arena, in operand order; unused places are empty.
struct BoundStep {
  StepKind kind = StepKind::kInvalid;
  const char* mnemonic = "";
  std::array<Buffer, 3> inputs;
  std::array<Buffer, 2> outputs;
};

// Immutable; safe to share between threads. Refers to the SealedPlan it was bound from, which must live
// longer.
class RankProgram {
 public:
  uint32_t rank() const { return rank_; }
  const Coordinate& at() const { return at_; }
  const LayerClass& layer_class() const { return *layer_class_; }
  Phase phase() const { return program_->phase; }
  Basis output() const { return output_; }

  uint32_t hidden() const { return hidden_; }
  uint32_t max_tokens() const { return program_->max_tokens; }
  ReduceAlgorithm reduce_algorithm() const { return program_->reduce_algorithm; }  // of its collective
  // Whether the dense groups of the expert group bring different tokens, of which each brings at most max_own_tokens.
  bool gathers() const { return DenseGroups(degrees_) > 1; }
  uint32_t max_own_tokens() const { return max_own_tokens_; }
  uint32_t tile_rows() const { return program_->tile_rows; }
  uint64_t grouped_rows() const { return layout_->grouped_rows; }  // proven capacity of scatter
  uint64_t arena_bytes() const { return layout_->arena_bytes; }
  ColumnRange columns() const { return columns_; }
  uint32_t shared_columns() const { return layout_->shared_columns; }
  uint32_t local_experts() const { return layout_->experts; }
  // Of an exact sum: its fixed point, and the segments of the columns above.
  const std::optional<FixedPoint>& fixed_point() const { return fixed_point_; }
  absl::Span<const uint32_t> segment_ends() const { return segment_ends_; }
  absl::Span<const uint32_t> shared_segment_ends() const { return shared_segment_ends_; }
  // How many times each slot is computed over the expert group: once per tp coordinate.
  uint32_t tensor_degree() const { return degrees_.tp; }
  const Degrees& degrees() const { return degrees_; }

  // Per expert of the layer: where the rank holds it. The one owner view of all steps.
  absl::Span<const ExpertPlace> expert_places() const { return expert_places_; }

  absl::Span<const BoundStep> steps() const { return steps_; }
  // The one step that gives the routing.
  const BoundStep& route() const { return steps_[route_]; }
  const Buffer& layer_input() const { return layout_->buffers.front(); }
  const Buffer& layer_output() const { return steps_.back().outputs.front(); }

 private:
  friend absl::StatusOr<RankProgram> BindProgram(const SealedPlan&, uint32_t, uint32_t, Phase);
  RankProgram() = default;

  uint32_t rank_ = 0;
  Coordinate at_;
  Basis output_ = Basis::kInvalid;
  uint32_t hidden_ = 0;
  Degrees degrees_;
  uint32_t max_own_tokens_ = 0;
  const LayerClass* layer_class_ = nullptr;
  const Program* program_ = nullptr;
  const WorkLayout* layout_ = nullptr;
  ColumnRange columns_;
  std::optional<FixedPoint> fixed_point_;
  std::vector<uint32_t> segment_ends_;
  std::vector<uint32_t> shared_segment_ends_;
  std::vector<ExpertPlace> expert_places_;
  std::vector<BoundStep> steps_;
  size_t route_ = 0;  // in steps_
};

// The program of `layer_class` (an index into the plan's) and `phase` for `rank`. Reason kWorldSize for a
// rank outside the plan's world, kBug for anything else that is not in the plan.
absl::StatusOr<RankProgram> BindProgram(const SealedPlan& plan, uint32_t rank, uint32_t layer_class, Phase phase);
absl::StatusOr<RankProgram> BindProgram(const SealedPlan&&, uint32_t, uint32_t, Phase) = delete;  // it would dangle

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_PROGRAM_RANK_PROGRAM_H_
