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

// Whether a step moves rows between ranks and computes nothing but the sum of the collective.
constexpr bool IsCommunication(StepKind kind) { return kind == StepKind::kCollective || kind == StepKind::kGather; }

// What decides which steps a layer's program has.
struct ProgramShape {
  Phase phase = Phase::kInvalid;
  StepKind route = StepKind::kInvalid;  // kRoute, kRouteByTable or kRouteGiven
  bool gathers = false;                 // ranks of an expert group bring different tokens
  bool shared_expert = false;
  Residual residual = Residual::kInvalid;
};

// The steps of a layer's program, in order.
//   decode  (indexed): [gather] route gate_up activation down [shared] combine collective [residual]
//   prefill (grouped): [gather] route scatter gate_up_grouped unscatter activation down [shared] combine collective
//                      [residual]
//   [shared]: shared_gate_up shared_activation shared_down, and combine is combine_shared
// No other program can be sealed. Empty for an unknown phase or route.
std::vector<StepKind> GrammarOf(const ProgramShape& shape);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_STEP_H_
