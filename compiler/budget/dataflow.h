// The dataflow of a layer's program: which step makes and reads which value, how each value is typed, and at which
// steps its bytes must be intact. Budgeting needs the lifetimes, lowering adds weights, collective and origins.
#ifndef MESHSEAL_COMPILER_BUDGET_DATAFLOW_H_
#define MESHSEAL_COMPILER_BUDGET_DATAFLOW_H_

#include <cstdint>
#include <vector>

#include "compiler/manifest/manifest.h"
#include "schema/plan.h"

namespace meshseal::compiler {

struct FlowValue {
  Value type;
  size_t first = 0;  // step that makes it; the layer's input is there before step 0
  size_t last = 0;   // last step that reads it; the layer's output is read after the last step
};

struct FlowStep {
  StepKind kind = StepKind::kInvalid;
  std::vector<uint32_t> inputs;   // value numbers
  std::vector<uint32_t> outputs;  // value numbers
};

struct Dataflow {
  std::vector<FlowValue> values;  // number 0 is the layer's input
  std::vector<FlowStep> steps;
};

// The dataflow of a phase of `moe`'s layers on any rank of a world of these degrees. `shared` is where the shared
// expert lies; it is not read without one. Of an exact sum, down weighs, and its addends are fixed point.
Dataflow DataflowOf(const Degrees& degrees, const MoeSpec& moe, SharedPlacement shared, Reduction reduction,
                    Phase phase);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_BUDGET_DATAFLOW_H_
