// Rules on programs: grammar, operands, types and the one collective.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/meaning/rules.h"
#include "schema/meaning/shape_facts.h"

namespace meshseal::meaning {
namespace {

std::string Where(const LayerClass& c, const Program& program) {
  return absl::StrCat("layer ", c.layers.front().first, " ", WordOf(program.phase), ": ");
}

// Runs `check` on every program until one has a fault.
template <class F>
Fault ForEachProgram(const Plan& plan, F check) {
  for (const LayerClass& c : plan.layer_classes) {
    for (const Program& program : c.programs) {
      if (Fault fault = check(c, program)) return absl::StrCat(Where(c, program), *fault);
    }
  }
  return std::nullopt;
}

// The operands of a program's steps, derived by walking the grammar: the newest value of each order, and for tokens
// those that the layer routes, because only the steps after `combine` read another token value.
class OperandWalk {
 public:
  explicit OperandWalk(StepKind route) {
    if (route == StepKind::kRouteByTable) latest_[Index(ValueOrder::kTokenId)] = next_++;
    if (route == StepKind::kRouteGiven) latest_[Index(ValueOrder::kRouting)] = next_++;
  }

  // The inputs that `step` must have; a value that was not produced yet is kMissing.
  std::vector<uint32_t> InputsOf(const StepRow& row) const {
    switch (row.kind) {
      case StepKind::kGather:
        return {kLayerInput};
      case StepKind::kCollective:
        return {Latest(ValueOrder::kToken)};
      case StepKind::kResidual:
        return {Latest(ValueOrder::kToken), kLayerInput};
      default:
        break;
    }
    std::vector<uint32_t> inputs;
    for (const ValueOrder order : row.inputs) {
      inputs.push_back(order == ValueOrder::kToken ? tokens_ : Latest(order));
    }
    return inputs;
  }

  // The outputs it must have: the next numbers.
  std::vector<uint32_t> TakeOutputs(const StepRow& row) {
    std::vector<uint32_t> outputs;
    for (const ValueOrder order : row.outputs) {
      latest_[Index(order)] = next_;
      outputs.push_back(next_++);
    }
    if (row.kind == StepKind::kGather) tokens_ = outputs.front();
    return outputs;
  }

  uint32_t value_count() const { return next_; }

 private:
  static constexpr uint32_t kLayerInput = 0;
  static constexpr uint32_t kMissing = UINT32_MAX;

  static size_t Index(ValueOrder order) { return static_cast<size_t>(order); }
  uint32_t Latest(ValueOrder order) const { return latest_[Index(order)]; }

  std::vector<uint32_t> latest_ = std::vector<uint32_t>(Terms<ValueOrder>().size() + 1, kMissing);
  uint32_t tokens_ = kLayerInput;
  uint32_t next_ = 1;
};

std::string Numbers(const std::vector<uint32_t>& values) { return absl::StrCat("(", absl::StrJoin(values, ", "), ")"); }

// The type of the values a program must have, from the class's cuts and owners.
class TypeWalk {
 public:
  TypeWalk(const Plan& plan, const LayerClass& c)
      : class_(c),
        gathers_(Gathers(plan.degrees)),
        exact_(plan.reduction == Reduction::kExact),
        experts_divided_(plan.degrees.ep > 1),
        columns_cut_(plan.degrees.tp > 1) {}

  std::vector<Value> ValuesOf(const Program& program) const {
    std::vector<Value> values = {Tokens(gathers_ ? RowSet::kPart : RowSet::kAll, false)};
    const StepKind route = RouteOf(class_);
    if (route == StepKind::kRouteByTable) values.push_back(Indices(ValueOrder::kTokenId, RowSet::kAll));
    if (route == StepKind::kRouteGiven) values.push_back(Indices(ValueOrder::kRouting, RowSet::kAll));
    for (const Step& step : program.steps) Append(step.kind, values);
    return values;
  }

 private:
  static constexpr AxisPlacement kSame = AxisPlacement::kReplicated;

  void Append(StepKind kind, std::vector<Value>& values) const {
    const WeightPoint point = class_.router.weight_applied;
    const bool before_gate = point == WeightPoint::kInput;
    const bool before_down = before_gate || point == WeightPoint::kActivation;
    const ValueWidth product = IsGated(class_) ? ValueWidth::kTwoColumns : ValueWidth::kColumns;
    switch (kind) {
      case StepKind::kGather:
        values.push_back(Tokens(RowSet::kAll, false));
        break;
      case StepKind::kRoute:
      case StepKind::kRouteByTable:
      case StepKind::kRouteGiven:
        values.push_back(Indices(ValueOrder::kRouting, RowSet::kAll));
        break;
      case StepKind::kScatter:
        values.push_back(Rows(ValueOrder::kRow, ValueWidth::kHidden, kSame, before_gate));
        values.push_back(Indices(ValueOrder::kGrouping, Owned()));
        break;
      case StepKind::kGateUp:
      case StepKind::kUnscatter:
        values.push_back(Rows(ValueOrder::kSlot, product, Cut(), before_gate));
        break;
      case StepKind::kGateUpGrouped:
        values.push_back(Rows(ValueOrder::kRow, product, Cut(), before_gate));
        break;
      case StepKind::kActivation:
        values.push_back(Rows(ValueOrder::kSlot, ValueWidth::kColumns, Cut(), before_down));
        break;
      case StepKind::kDown:
        values.push_back(
            Fixed(Rows(ValueOrder::kSlot, ValueWidth::kHidden, Summed(columns_cut_), before_down || exact_)));
        break;
      case StepKind::kSharedGateUp:
        values.push_back(Shared(SharedIsGated(class_) ? ValueWidth::kTwoSharedColumns : ValueWidth::kSharedColumns,
                                Cut(), SharedCut()));
        break;
      case StepKind::kSharedActivation:
        values.push_back(Shared(ValueWidth::kSharedColumns, Cut(), SharedCut()));
        break;
      case StepKind::kSharedDown:
        values.push_back(Fixed(Shared(ValueWidth::kHidden, Summed(columns_cut_), Summed(experts_divided_))));
        break;
      case StepKind::kCombine:
      case StepKind::kCombineShared: {
        Value combined = Tokens(RowSet::kAll, true);
        combined.tp = Summed(columns_cut_);
        combined.ep = Summed(experts_divided_);
        values.push_back(Fixed(combined));
        break;
      }
      case StepKind::kCollective:
      case StepKind::kResidual:
        values.push_back(Tokens(gathers_ ? RowSet::kPart : RowSet::kAll, true));
        break;
      case StepKind::kInvalid:
        break;
    }
  }

  AxisPlacement Cut() const { return columns_cut_ ? AxisPlacement::kSplitColumns : kSame; }
  // The shared expert's columns on the ep axis: cut, or all on its first rank.
  AxisPlacement SharedCut() const {
    if (!experts_divided_) return kSame;
    const bool split = class_.shared_expert.placement == SharedPlacement::kSplit;
    return split ? AxisPlacement::kSplitColumns : AxisPlacement::kOnlyFirst;
  }
  static AxisPlacement Summed(bool divided) { return divided ? AxisPlacement::kAddend : kSame; }
  RowSet Owned() const { return experts_divided_ ? RowSet::kOwned : RowSet::kAll; }

  static Value Tokens(RowSet rows, bool weighted) {
    return {ValueOrder::kToken, ValueWidth::kHidden, rows, kSame, kSame, weighted};
  }
  static Value Indices(ValueOrder order, RowSet rows) { return {order, ValueWidth::kIndex, rows, kSame, kSame, false}; }
  // A slot or row value: on ep every owned row has the bits it has anywhere, so R; the row set says which there are.
  Value Rows(ValueOrder order, ValueWidth width, AxisPlacement tp, bool weighted) const {
    return {order, width, Owned(), tp, kSame, weighted};
  }
  // An addend of an exact sum.
  Value Fixed(Value value) const {
    value.fixed_point = exact_;
    return value;
  }
  static Value Shared(ValueWidth width, AxisPlacement tp, AxisPlacement ep) {
    return {ValueOrder::kShared, width, RowSet::kAll, tp, ep, false};
  }

  const LayerClass& class_;
  bool gathers_;
  bool exact_;  // down weighs, and gives fixed point up to the collective
  bool experts_divided_;
  bool columns_cut_;
};

std::string TypeText(const Value& v) {
  return absl::StrCat(WordOf(v.order), " ", WordOf(v.width), " ", WordOf(v.rows), " tp ", WordOf(v.tp), " ep ",
                      WordOf(v.ep), v.weighted ? " weighted" : " unweighted", v.fixed_point ? " fixed point" : "");
}

}  // namespace

Fault ProgramsArePresent(const Plan& plan, const SealFacts&) {
  for (const LayerClass& c : plan.layer_classes) {
    if (c.programs.size() != 2 || c.programs[0].phase != Phase::kDecode || c.programs[1].phase != Phase::kPrefill) {
      return absl::StrCat("layer ", c.layers.front().first, " has ", c.programs.size(),
                          " programs, expected one for decode and one for prefill");
    }
    const auto tokens = [](const Program& program, uint32_t expected) -> Fault {
      if (program.max_tokens == expected) return std::nullopt;
      return absl::StrCat("the ", WordOf(program.phase), " program takes ", program.max_tokens,
                          " tokens, the limits say ", expected);
    };
    if (Fault fault = tokens(c.programs[0], plan.limits.decode_tokens)) return fault;
    if (Fault fault = tokens(c.programs[1], plan.limits.prefill_chunk)) return fault;
  }
  return std::nullopt;
}

Fault GrammarHolds(const Plan& plan, const SealFacts&) {
  return ForEachProgram(plan, [&plan](const LayerClass& c, const Program& program) -> Fault {
    const StepKind route = RouteOf(c);
    const bool gathers = Gathers(plan.degrees);
    // Its ids or its routing are of the rank's own tokens, and nothing gathers them.
    if (gathers && route != StepKind::kRoute) return absl::StrCat("gathers tokens for ", FindStep(route)->mnemonic);
    const std::vector<StepKind> grammar =
        GrammarOf({program.phase, route, gathers, c.shared_expert.width > 0, c.residual});
    const auto name = [](StepKind kind) { return FindStep(kind)->mnemonic; };
    for (size_t i = 0; i < std::max(grammar.size(), program.steps.size()); ++i) {
      if (i >= program.steps.size()) return absl::StrCat("ends before step ", i, " ", name(grammar[i]));
      if (i >= grammar.size()) return absl::StrCat("step ", i, " ", name(program.steps[i].kind), " after the last one");
      if (program.steps[i].kind != grammar[i]) {
        return absl::StrCat("step ", i, " is ", name(program.steps[i].kind), ", expected ", name(grammar[i]));
      }
    }
    return std::nullopt;
  });
}

Fault OperandsAreTied(const Plan& plan, const SealFacts&) {
  return ForEachProgram(plan, [](const LayerClass& c, const Program& program) -> Fault {
    OperandWalk walk(RouteOf(c));
    for (size_t i = 0; i < program.steps.size(); ++i) {
      const Step& step = program.steps[i];
      const StepRow& row = *FindStep(step.kind);
      const auto differs = [&](const char* what, const std::vector<uint32_t>& found,
                               const std::vector<uint32_t>& expected) -> Fault {
        if (found == expected) return std::nullopt;
        return absl::StrCat("step ", i, " ", row.mnemonic, " has ", what, " ", Numbers(found), ", expected ",
                            Numbers(expected));
      };
      if (Fault fault = differs("inputs", step.inputs, walk.InputsOf(row))) return fault;
      if (Fault fault = differs("outputs", step.outputs, walk.TakeOutputs(row))) return fault;
      std::vector<uint32_t> tensors;
      for (const TensorRole role : row.tensors) {
        const TensorClass* tensor = FindTensor(c, role);
        if (tensor != nullptr) tensors.push_back(static_cast<uint32_t>(tensor - c.tensors.data()));
      }
      if (Fault fault = differs("tensors", step.tensors, tensors)) return fault;
    }
    if (program.values.size() != walk.value_count()) {
      return absl::StrCat(program.values.size(), " values, the steps make ", walk.value_count());
    }
    return std::nullopt;
  });
}

Fault TypesAreDerived(const Plan& plan, const SealFacts&) {
  return ForEachProgram(plan, [&plan](const LayerClass& c, const Program& program) -> Fault {
    const std::vector<Value> expected = TypeWalk(plan, c).ValuesOf(program);
    for (size_t i = 0; i < expected.size(); ++i) {
      if (program.values[i] != expected[i]) {
        return absl::StrCat("%", i, " is ", TypeText(program.values[i]), ", derived is ", TypeText(expected[i]));
      }
    }
    return std::nullopt;
  });
}

Fault CollectiveSumsAddends(const Plan& plan, const SealFacts&) {
  const CollectiveOp op = Gathers(plan.degrees) ? CollectiveOp::kReduceScatter : CollectiveOp::kSum;
  return ForEachProgram(plan, [op](const LayerClass&, const Program& program) -> Fault {
    for (const Step& step : program.steps) {
      const size_t expected = step.kind == StepKind::kCollective ? 1 : 0;
      if (step.collectives.size() != expected) {
        return absl::StrCat("step ", FindStep(step.kind)->mnemonic, " has ", step.collectives.size(),
                            " collectives, expected ", expected);
      }
      if (expected == 0) continue;
      const Value& input = program.values[step.inputs.front()];
      const Collective& collective = step.collectives.front();
      if (collective.op != op) {
        return absl::StrCat("the collective is a ", WordOf(collective.op), ", expected ", WordOf(op));
      }
      const bool tp = input.tp == AxisPlacement::kAddend;
      const bool ep = input.ep == AxisPlacement::kAddend;
      if (collective.over_tp != tp || collective.over_ep != ep) {
        return absl::StrCat("the collective sums over tp ", collective.over_tp ? "yes" : "no", " ep ",
                            collective.over_ep ? "yes" : "no", ", its input is an addend on tp ", tp ? "yes" : "no",
                            " ep ", ep ? "yes" : "no");
      }
    }
    return std::nullopt;
  });
}

}  // namespace meshseal::meaning
