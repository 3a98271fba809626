#include "runtime/program/rank_program.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::runtime {
namespace {

absl::StatusOr<std::array<Buffer, 2>> PlacesOf(const std::vector<uint32_t>& values, const WorkLayout& layout) {
  std::array<Buffer, 2> places;
  if (values.size() > places.size()) return Refuse(Reason::kBug, "a step has more than 2 operands of a kind");
  for (size_t i = 0; i < values.size(); ++i) places[i] = layout.buffers[values[i]];
  return places;
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
  bound.tensor_degree_ = content.degrees.tp;
  const LayerClass& c = content.layer_classes[layer_class];
  bound.layer_class_ = &c;
  bound.columns_ = ColumnsOf(c, bound.at_.tp);
  bound.local_of_expert_.assign(c.experts, -1);
  const std::vector<uint32_t> experts = LocalExperts(c, bound.at_.ep);
  for (size_t local = 0; local < experts.size(); ++local) {
    bound.local_of_expert_[experts[local]] = static_cast<int32_t>(local);
  }

  const auto program = std::find_if(c.programs.begin(), c.programs.end(),
                                    [&](const Program& candidate) { return candidate.phase == phase; });
  if (program == c.programs.end()) {
    return Refuse(Reason::kBug, absl::StrCat("layer class ", layer_class, " has no ", WordOf(phase), " program"));
  }
  bound.program_ = &*program;
  const auto layout = std::find_if(program->layouts.begin(), program->layouts.end(), [&](const WorkLayout& candidate) {
    return candidate.experts == experts.size() && candidate.columns == bound.columns_.size();
  });
  if (layout == program->layouts.end()) {
    return Refuse(Reason::kBug,
                  absl::StrCat("no layout for ", experts.size(), " experts and ", bound.columns_.size(), " columns"));
  }
  bound.layout_ = &*layout;

  for (const Step& step : program->steps) {
    BoundStep bound_step;
    bound_step.kind = step.kind;
    bound_step.mnemonic = FindStep(step.kind)->mnemonic;
    MESHSEAL_ASSIGN_OR_RETURN(bound_step.inputs, PlacesOf(step.inputs, *layout));
    MESHSEAL_ASSIGN_OR_RETURN(bound_step.outputs, PlacesOf(step.outputs, *layout));
    bound.steps_.push_back(bound_step);
  }
  return bound;
}

}  // namespace meshseal::runtime
