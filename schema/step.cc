#include "schema/step.h"

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

std::vector<StepKind> GrammarOf(Phase phase, Residual residual) {
  std::vector<StepKind> steps;
  switch (phase) {
    case Phase::kDecode:
      steps = {StepKind::kRoute, StepKind::kGateUp,  StepKind::kActivation,
               StepKind::kDown,  StepKind::kCombine, StepKind::kCollective};
      break;
    case Phase::kPrefill:
      steps = {StepKind::kRoute,      StepKind::kScatter, StepKind::kGateUpGrouped, StepKind::kUnscatter,
               StepKind::kActivation, StepKind::kDown,    StepKind::kCombine,       StepKind::kCollective};
      break;
    case Phase::kInvalid:
      return {};
  }
  if (residual == Residual::kAdd) steps.push_back(StepKind::kResidual);
  return steps;
}

}  // namespace meshseal
