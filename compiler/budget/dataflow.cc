#include "compiler/budget/dataflow.h"

#include <utility>

namespace meshseal::compiler {
namespace {

constexpr AxisPlacement kR = AxisPlacement::kReplicated;

// Appends steps; each names its operands by the numbers that earlier steps returned.
class FlowBuilder {
 public:
  // A value that the caller brings.
  uint32_t Input(const Value& type) {
    flow_.values.push_back({type, 0, 0});
    return static_cast<uint32_t>(flow_.values.size() - 1);
  }

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

// The typing rules of the steps, over the placement of their operands.
class Typing {
 public:
  Typing(const Degrees& degrees, const MoeSpec& moe, SharedPlacement shared, Reduction reduction)
      : degrees_(degrees), moe_(moe), shared_(shared), exact_(reduction == Reduction::kExact) {}

  bool gathers() const { return degrees_.dense_tp < degrees_.tp * degrees_.ep; }

  Value Tokens(RowSet rows) const { return {ValueOrder::kToken, ValueWidth::kHidden, rows, kR, kR, false}; }
  Value Own() const { return Tokens(gathers() ? RowSet::kPart : RowSet::kAll); }
  Value Index(ValueOrder order) const { return {order, ValueWidth::kIndex, RowSet::kAll, kR, kR, false}; }
  Value Grouping() const { return {ValueOrder::kGrouping, ValueWidth::kIndex, Owned(), kR, kR, false}; }

  Value Scattered() const {
    return {ValueOrder::kRow, ValueWidth::kHidden, Owned(), kR, kR, WeightedBy(WeightPoint::kInput)};
  }

  // A product with a matrix that is cut by output columns: R -> S(columns) where there is a cut.
  Value Projected(ValueOrder order) const {
    const ValueWidth width = moe_.gated.value ? ValueWidth::kTwoColumns : ValueWidth::kColumns;
    return {order, width, Owned(), CutOver(degrees_.tp), kR, WeightedBy(WeightPoint::kInput)};
  }

  Value Activated(Value value) const {
    value.width = ValueWidth::kColumns;
    value.weighted = value.weighted || WeightedBy(WeightPoint::kActivation);
    return value;
  }

  // A product that contracts over the cut axis: S(columns) -> P, R -> R; and the contribution of one coordinate alone.
  Value Contracted(Value value) const {
    value.width = ValueWidth::kHidden;
    value.fixed_point = exact_;
    if (value.tp != kR) value.tp = AxisPlacement::kAddend;
    if (value.ep != kR) value.ep = AxisPlacement::kAddend;
    return value;
  }

  // An exact sum is one of weighted addends.
  Value Expanded(Value value) const {
    value = Contracted(value);
    value.weighted = value.weighted || exact_;
    return value;
  }

  Value SharedProjected() const {
    const bool split = shared_ == SharedPlacement::kSplit;
    const AxisPlacement alone = degrees_.ep > 1 ? AxisPlacement::kOnlyFirst : kR;
    return {ValueOrder::kShared,
            moe_.gated.value ? ValueWidth::kTwoSharedColumns : ValueWidth::kSharedColumns,
            RowSet::kAll,
            CutOver(degrees_.tp),
            split ? CutOver(degrees_.ep) : alone,
            false};
  }

  static Value SharedActivated(Value value) {
    value.width = ValueWidth::kSharedColumns;
    return value;
  }

  // Weighted sum of the owned slots of a token: an addend on ep where experts are divided.
  Value Combined(Value value) const {
    value.order = ValueOrder::kToken;
    value.rows = RowSet::kAll;
    value.weighted = true;
    if (degrees_.ep > 1) value.ep = AxisPlacement::kAddend;
    return value;
  }

  Value Summed() const {
    Value value = Own();
    value.weighted = true;
    return value;
  }

 private:
  RowSet Owned() const { return degrees_.ep > 1 ? RowSet::kOwned : RowSet::kAll; }
  static AxisPlacement CutOver(uint32_t degree) { return degree > 1 ? AxisPlacement::kSplitColumns : kR; }
  bool WeightedBy(WeightPoint point) const { return moe_.router.weight_applied.value == point; }

  const Degrees& degrees_;
  const MoeSpec& moe_;
  SharedPlacement shared_;
  bool exact_;
};

// The routing: by the router's formula, by a table over token ids, or as the caller brings it.
uint32_t AddRoute(const MoeSpec& moe, const Typing& typing, uint32_t own, uint32_t tokens, FlowBuilder& flow) {
  const Value routing = typing.Index(ValueOrder::kRouting);
  if (moe.router.scoring.value == Scoring::kPrecomputed) return flow.Add(StepKind::kRouteGiven, {own + 1}, routing);
  if (moe.router.token_table_layers.value.empty()) return flow.Add(StepKind::kRoute, {tokens}, routing);
  return flow.Add(StepKind::kRouteByTable, {tokens, own + 1}, routing);
}

}  // namespace

Dataflow DataflowOf(const Degrees& degrees, const MoeSpec& moe, SharedPlacement shared, Reduction reduction,
                    Phase phase) {
  const Typing typing(degrees, moe, shared, reduction);
  FlowBuilder flow;
  const uint32_t own = flow.Input(typing.Own());
  if (moe.router.scoring.value == Scoring::kPrecomputed) flow.Input(typing.Index(ValueOrder::kRouting));
  if (!moe.router.token_table_layers.value.empty()) flow.Input(typing.Index(ValueOrder::kTokenId));

  const uint32_t tokens = typing.gathers() ? flow.Add(StepKind::kGather, {own}, typing.Tokens(RowSet::kAll)) : own;
  const uint32_t routing = AddRoute(moe, typing, own, tokens, flow);
  const Value slots = typing.Projected(ValueOrder::kSlot);
  uint32_t projected = 0;
  if (phase == Phase::kPrefill) {
    const std::vector<uint32_t> scattered =
        flow.Add(StepKind::kScatter, {tokens, routing}, std::vector<Value>{typing.Scattered(), typing.Grouping()});
    const uint32_t grouped = flow.Add(StepKind::kGateUpGrouped, scattered, typing.Projected(ValueOrder::kRow));
    projected = flow.Add(StepKind::kUnscatter, {grouped, scattered[1]}, slots);
  } else {
    projected = flow.Add(StepKind::kGateUp, {tokens, routing}, slots);
  }
  const uint32_t activated =
      flow.Add(StepKind::kActivation, {projected, routing}, typing.Activated(flow.TypeOf(projected)));
  const uint32_t expanded = flow.Add(StepKind::kDown, {activated, routing}, typing.Expanded(flow.TypeOf(activated)));
  const Value sum = typing.Combined(flow.TypeOf(expanded));
  uint32_t combined = 0;
  if (moe.shared_expert.has_value()) {
    const uint32_t gate_up = flow.Add(StepKind::kSharedGateUp, {tokens}, typing.SharedProjected());
    const uint32_t active =
        flow.Add(StepKind::kSharedActivation, {gate_up}, Typing::SharedActivated(flow.TypeOf(gate_up)));
    const uint32_t down = flow.Add(StepKind::kSharedDown, {active, tokens}, typing.Contracted(flow.TypeOf(active)));
    combined = flow.Add(StepKind::kCombineShared, {expanded, routing, down}, sum);
  } else {
    combined = flow.Add(StepKind::kCombine, {expanded, routing}, sum);
  }
  uint32_t output = flow.Add(StepKind::kCollective, {combined}, typing.Summed());
  if (moe.residual.value == Residual::kAdd) {
    output = flow.Add(StepKind::kResidual, {output, own}, flow.TypeOf(output));
  }
  return std::move(flow).Finish(output);
}

}  // namespace meshseal::compiler
