#include "runtime/program/rank_program.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::runtime {
namespace {

template <size_t n>
absl::Status PlaceOperands(const std::vector<uint32_t>& values, const WorkLayout& layout,
                           std::array<Buffer, n>* places) {
  if (values.size() > n) return Refuse(Reason::kBug, absl::StrCat("a step has more than ", n, " operands of a kind"));
  for (size_t i = 0; i < values.size(); ++i) (*places)[i] = layout.buffers[values[i]];
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RankProgram> BindProgram(const SealedPlan& plan, uint32_t rank, uint32_t layer_class, Phase phase) {
  const Plan& content = plan.plan();
  const size_t world = content.mesh.rank_slots.size();
  if (rank >= world) {
    return Refuse(Reason::kWorldSize, absl::StrCat("rank ", rank, " of a plan with a world of ", world));
  }
  if (layer_class >= content.layer_classes.size()) {
    return Refuse(Reason::kBug,
                  absl::StrCat("layer class ", layer_class, " of a plan with ", content.layer_classes.size()));
  }
  RankProgram bound;
  bound.rank_ = rank;
  bound.at_ = CoordinateOf(content.degrees, rank);
  bound.output_ = content.output;
  bound.hidden_ = content.hidden;
  bound.degrees_ = content.degrees;
  bound.max_own_tokens_ =
      phase == Phase::kDecode ? content.limits.rank_decode_tokens : content.limits.rank_prefill_tokens;
  const LayerClass& c = content.layer_classes[layer_class];
  bound.layer_class_ = &c;
  bound.columns_ = ColumnsOf(c, bound.at_.tp);
  bound.expert_places_ = ExpertPlaces(c, bound.at_.ep);
  const size_t experts = LocalExperts(c, bound.at_.ep).size();
  const ColumnRange shared = SharedColumnsOf(c, content.degrees, bound.at_);
  const uint32_t shared_columns = shared.size();
  if (content.reduction == Reduction::kExact) bound.fixed_point_ = FixedPoint{c.fraction_bits, content.exact_bound};
  bound.segment_ends_ = SegmentsIn(c.segment_ends, bound.columns_);
  bound.shared_segment_ends_ = SegmentsIn(c.shared_expert.segment_ends, shared);

  const auto program = std::find_if(c.programs.begin(), c.programs.end(),
                                    [&](const Program& candidate) { return candidate.phase == phase; });
  if (program == c.programs.end()) {
    return Refuse(Reason::kBug, absl::StrCat("layer class ", layer_class, " has no ", WordOf(phase), " program"));
  }
  bound.program_ = &*program;
  const auto layout = std::find_if(program->layouts.begin(), program->layouts.end(), [&](const WorkLayout& candidate) {
    return candidate.experts == experts && candidate.columns == bound.columns_.size() &&
           candidate.shared_columns == shared_columns;
  });
  if (layout == program->layouts.end()) {
    return Refuse(Reason::kBug, absl::StrCat("no layout for ", experts, " experts, ", bound.columns_.size(),
                                             " columns and ", shared_columns, " shared ones"));
  }
  bound.layout_ = &*layout;

  const StepKind route = RouteOf(c);
  for (const Step& step : program->steps) {
    BoundStep bound_step;
    bound_step.kind = step.kind;
    bound_step.mnemonic = FindStep(step.kind)->mnemonic;
    MESHSEAL_RETURN_IF_ERROR(PlaceOperands(step.inputs, *layout, &bound_step.inputs));
    MESHSEAL_RETURN_IF_ERROR(PlaceOperands(step.outputs, *layout, &bound_step.outputs));
    if (step.kind == route) bound.route_ = bound.steps_.size();
    bound.steps_.push_back(bound_step);
  }
  return bound;
}

}  // namespace meshseal::runtime
