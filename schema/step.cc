#include "schema/step.h"

#include <initializer_list>

namespace meshseal {

absl::Span<const StepRow> StepRows() {
  static const std::vector<StepRow> kRows = {
#define MESHSEAL_STEP(Name, value, mnemonic, inputs, outputs, tensors) \
  StepRow{StepKind::k##Name, mnemonic, inputs, outputs, tensors},
#include "schema/steps.def"
#undef MESHSEAL_STEP
  };
  return kRows;
}

const StepRow* FindStep(StepKind kind) {
  for (const StepRow& row : StepRows()) {
    if (row.kind == kind) return &row;
  }
  return nullptr;
}

std::vector<StepKind> GrammarOf(const ProgramShape& shape) {
  const bool routes =
      shape.route == StepKind::kRoute || shape.route == StepKind::kRouteByTable || shape.route == StepKind::kRouteGiven;
  if (!routes || !IsKnown(shape.phase)) return {};
  std::vector<StepKind> steps;
  const auto add = [&steps](std::initializer_list<StepKind> kinds) {
    for (const StepKind kind : kinds) steps.push_back(kind);
  };
  if (shape.gathers) add({StepKind::kGather});
  add({shape.route});
  if (shape.phase == Phase::kPrefill) {
    add({StepKind::kScatter, StepKind::kGateUpGrouped, StepKind::kUnscatter});
  } else {
    add({StepKind::kGateUp});
  }
  add({StepKind::kActivation, StepKind::kDown});
  if (shape.shared_expert) {
    add({StepKind::kSharedGateUp, StepKind::kSharedActivation, StepKind::kSharedDown, StepKind::kCombineShared});
  } else {
    add({StepKind::kCombine});
  }
  add({StepKind::kCollective});
  if (shape.residual == Residual::kAdd) add({StepKind::kResidual});
  return steps;
}

}  // namespace meshseal
