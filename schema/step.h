// The step table as types: kinds, signatures and the two programs a MoE layer may have. The rows are in steps.def.
#ifndef MESHSEAL_SCHEMA_STEP_H_
#define MESHSEAL_SCHEMA_STEP_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "schema/terms.h"

namespace meshseal {

enum class StepKind : uint8_t {
  kInvalid = 0,
#define MESHSEAL_STEP(Name, value, mnemonic, inputs, outputs, tensors) k##Name = value,
#include "schema/steps.def"
#undef MESHSEAL_STEP
};

struct StepRow {
  StepKind kind;
  const char* mnemonic;
  std::vector<ValueOrder> inputs;
  std::vector<ValueOrder> outputs;
  std::vector<TensorRole> tensors;
};

// All rows, in wire order.
absl::Span<const StepRow> StepRows();

// The row of a kind; null for a value outside the table.
const StepRow* FindStep(StepKind kind);

// The steps of a layer's program, in order; `residual` appends the step that adds the block's input.
//   decode  (indexed): route gate_up activation down combine collective [residual]
//   prefill (grouped): route scatter gate_up_grouped unscatter activation down combine collective [residual]
// No other program can be sealed. Empty for an unknown phase.
std::vector<StepKind> GrammarOf(Phase phase, Residual residual);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_STEP_H_
