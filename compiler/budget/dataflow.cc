#include "compiler/budget/dataflow.h"

#include <utility>

namespace meshseal::compiler {
namespace {

// Appends steps; each names its operands by the numbers that earlier steps returned.
class FlowBuilder {
 public:
  explicit FlowBuilder(const Value& input) { flow_.values.push_back({input, 0, 0}); }

  static constexpr uint32_t kInput = 0;

  // A step with one output of type `type`; returns its number.
  uint32_t Add(StepKind kind, std::vector<uint32_t> inputs, const Value& type) {
    return Add(kind, std::move(inputs), std::vector<Value>{type}).front();
  }

  std::vector<uint32_t> Add(StepKind kind, std::vector<uint32_t> inputs, const std::vector<Value>& types) {
    const size_t step = flow_.steps.size();
    for (const uint32_t input : inputs) flow_.values[input].last = step;
    std::vector<uint32_t> outputs;
    for (const Value& type : types) {
      outputs.push_back(static_cast<uint32_t>(flow_.values.size()));
      flow_.values.push_back({type, step, step});
    }
    flow_.steps.push_back({kind, std::move(inputs), outputs});
    return outputs;
  }

  const Value& TypeOf(uint32_t value) const { return flow_.values[value].type; }

  Dataflow Finish(uint32_t output) && {
    flow_.values[output].last = flow_.steps.size();
    return std::move(flow_);
  }

 private:
  Dataflow flow_;
};

// The typing rules of one step each, over the operand's placement.

Value Gathered(const Degrees& degrees, ValueOrder order, ValueWidth width) {
  const RowSet rows = degrees.ep > 1 ? RowSet::kOwned : RowSet::kAll;
  return {order, width, rows, AxisPlacement::kReplicated, AxisPlacement::kReplicated, false};
}

// A product with a matrix that is cut by output columns: R -> S(columns) where there is a cut.
Value CutByColumns(const Degrees& degrees, Value value) {
  if (degrees.tp > 1) value.tp = AxisPlacement::kSplitColumns;
  return value;
}

// A product that contracts over the cut axis: S(columns) -> P, R -> R.
Value Contracted(Value value) {
  value.width = ValueWidth::kHidden;
  if (value.tp == AxisPlacement::kSplitColumns) value.tp = AxisPlacement::kAddend;
  return value;
}

// Weighted sum of the owned slots of a token: an addend on ep where experts are divided.
Value Combined(const Degrees& degrees, Value value) {
  value.order = ValueOrder::kToken;
  value.rows = RowSet::kAll;
  value.weighted = true;
  if (degrees.ep > 1) value.ep = AxisPlacement::kAddend;
  return value;
}

Value Summed(Value value) {
  value.tp = AxisPlacement::kReplicated;
  value.ep = AxisPlacement::kReplicated;
  return value;
}

Value Narrowed(Value value) {
  value.width = ValueWidth::kColumns;
  return value;
}

}  // namespace

Dataflow DataflowOf(const Degrees& degrees, Phase phase, Residual residual) {
  constexpr AxisPlacement kR = AxisPlacement::kReplicated;
  const Value tokens = {ValueOrder::kToken, ValueWidth::kHidden, RowSet::kAll, kR, kR, false};
  const Value routing_type = {ValueOrder::kRouting, ValueWidth::kIndex, RowSet::kAll, kR, kR, false};
  constexpr uint32_t kInput = FlowBuilder::kInput;

  FlowBuilder flow(tokens);
  const uint32_t routing = flow.Add(StepKind::kRoute, {kInput}, routing_type);
  const Value slots = CutByColumns(degrees, Gathered(degrees, ValueOrder::kSlot, ValueWidth::kTwoColumns));
  uint32_t projected = 0;
  if (phase == Phase::kPrefill) {
    const Value rows = Gathered(degrees, ValueOrder::kRow, ValueWidth::kHidden);
    const Value grouping_type = Gathered(degrees, ValueOrder::kGrouping, ValueWidth::kIndex);
    const std::vector<uint32_t> scattered =
        flow.Add(StepKind::kScatter, {kInput, routing}, std::vector<Value>{rows, grouping_type});
    const Value projected_rows = CutByColumns(degrees, Gathered(degrees, ValueOrder::kRow, ValueWidth::kTwoColumns));
    const uint32_t grouped = flow.Add(StepKind::kGateUpGrouped, scattered, projected_rows);
    projected = flow.Add(StepKind::kUnscatter, {grouped, scattered[1]}, slots);
  } else {
    projected = flow.Add(StepKind::kGateUp, {kInput, routing}, slots);
  }
  const uint32_t activated = flow.Add(StepKind::kActivation, {projected, routing}, Narrowed(flow.TypeOf(projected)));
  const uint32_t expanded = flow.Add(StepKind::kDown, {activated, routing}, Contracted(flow.TypeOf(activated)));
  const uint32_t combined = flow.Add(StepKind::kCombine, {expanded, routing}, Combined(degrees, flow.TypeOf(expanded)));
  uint32_t output = flow.Add(StepKind::kCollective, {combined}, Summed(flow.TypeOf(combined)));
  if (residual == Residual::kAdd) output = flow.Add(StepKind::kResidual, {output, kInput}, flow.TypeOf(output));
  return std::move(flow).Finish(output);
}

}  // namespace meshseal::compiler
