// Rules on programs: grammar, operands, types and the one collective.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/meaning/rules.h"

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

// The operands of a program's steps, derived by walking the grammar: the newest value of each order, and for tokens the
// layer's input, because only the steps after `combine` read another token value.
class OperandWalk {
 public:
  // The inputs that `step` must have; a value that was not produced yet is kMissing.
  std::vector<uint32_t> InputsOf(const StepRow& row) const {
    switch (row.kind) {
      case StepKind::kCollective:
        return {Latest(ValueOrder::kToken)};
      case StepKind::kResidual:
        return {Latest(ValueOrder::kToken), kLayerInput};
      default:
        break;
    }
    std::vector<uint32_t> inputs;
    for (const ValueOrder order : row.inputs) {
      inputs.push_back(order == ValueOrder::kToken ? kLayerInput : Latest(order));
    }
    return inputs;
  }

  // The outputs it must have: the next numbers.
  std::vector<uint32_t> TakeOutputs(const StepRow& row) {
    std::vector<uint32_t> outputs;
    for (const ValueOrder order : row.outputs) {
      latest_[static_cast<size_t>(order)] = next_;
      outputs.push_back(next_++);
    }
    return outputs;
  }

  uint32_t value_count() const { return next_; }

 private:
  static constexpr uint32_t kLayerInput = 0;
  static constexpr uint32_t kMissing = UINT32_MAX;

  uint32_t Latest(ValueOrder order) const { return latest_[static_cast<size_t>(order)]; }

  std::vector<uint32_t> latest_ = std::vector<uint32_t>(8, kMissing);
  uint32_t next_ = 1;
};

std::string Numbers(const std::vector<uint32_t>& values) { return absl::StrCat("(", absl::StrJoin(values, ", "), ")"); }

// The type of the values a program must have, from the class's cuts and owners.
class TypeWalk {
 public:
  explicit TypeWalk(const Plan& plan) : experts_divided_(plan.degrees.ep > 1), columns_cut_(plan.degrees.tp > 1) {}

  std::vector<Value> ValuesOf(const Program& program) const {
    std::vector<Value> values = {Tokens(false)};
    for (const Step& step : program.steps) {
      switch (step.kind) {
        case StepKind::kRoute:
          values.push_back(Index(ValueOrder::kRouting, false));
          break;
        case StepKind::kScatter:
          values.push_back(Rows(ValueOrder::kRow, ValueWidth::kHidden, AxisPlacement::kReplicated));
          values.push_back(Index(ValueOrder::kGrouping, true));
          break;
        case StepKind::kGateUp:
        case StepKind::kUnscatter:
          values.push_back(Rows(ValueOrder::kSlot, ValueWidth::kTwoColumns, Cut()));
          break;
        case StepKind::kGateUpGrouped:
          values.push_back(Rows(ValueOrder::kRow, ValueWidth::kTwoColumns, Cut()));
          break;
        case StepKind::kActivation:
          values.push_back(Rows(ValueOrder::kSlot, ValueWidth::kColumns, Cut()));
          break;
        case StepKind::kDown:
          values.push_back(Rows(ValueOrder::kSlot, ValueWidth::kHidden, Summed(columns_cut_)));
          break;
        case StepKind::kCombine: {
          Value combined = Tokens(true);
          combined.tp = Summed(columns_cut_);
          combined.ep = Summed(experts_divided_);
          values.push_back(combined);
          break;
        }
        case StepKind::kCollective:
          values.push_back(Tokens(true));
          break;
        case StepKind::kResidual:
          values.push_back(Tokens(true));
          break;
        case StepKind::kInvalid:
          break;
      }
    }
    return values;
  }

 private:
  AxisPlacement Cut() const { return columns_cut_ ? AxisPlacement::kSplitColumns : AxisPlacement::kReplicated; }
  static AxisPlacement Summed(bool divided) { return divided ? AxisPlacement::kAddend : AxisPlacement::kReplicated; }
  RowSet Owned() const { return experts_divided_ ? RowSet::kOwned : RowSet::kAll; }

  static Value Tokens(bool weighted) {
    return {ValueOrder::kToken,         ValueWidth::kHidden,        RowSet::kAll,
            AxisPlacement::kReplicated, AxisPlacement::kReplicated, weighted};
  }
  Value Index(ValueOrder order, bool owned) const {
    return {order,
            ValueWidth::kIndex,
            owned ? Owned() : RowSet::kAll,
            AxisPlacement::kReplicated,
            AxisPlacement::kReplicated,
            false};
  }
  // A slot or row value: on ep every owned row has the bits it has anywhere, so R; the row set says which there are.
  Value Rows(ValueOrder order, ValueWidth width, AxisPlacement tp) const {
    return {order, width, Owned(), tp, AxisPlacement::kReplicated, false};
  }

  bool experts_divided_;
  bool columns_cut_;
};

std::string TypeText(const Value& v) {
  return absl::StrCat(WordOf(v.order), " ", WordOf(v.width), " ", WordOf(v.rows), " tp ", WordOf(v.tp), " ep ",
                      WordOf(v.ep), v.weighted ? " weighted" : " unweighted");
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
  return ForEachProgram(plan, [](const LayerClass& c, const Program& program) -> Fault {
    const std::vector<StepKind> grammar = GrammarOf(program.phase, c.residual);
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
    OperandWalk walk;
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
        for (uint32_t t = 0; t < c.tensors.size(); ++t) {
          if (c.tensors[t].role == role) tensors.push_back(t);
        }
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
  return ForEachProgram(plan, [&plan](const LayerClass&, const Program& program) -> Fault {
    const std::vector<Value> expected = TypeWalk(plan).ValuesOf(program);
    for (size_t i = 0; i < expected.size(); ++i) {
      if (program.values[i] != expected[i]) {
        return absl::StrCat("%", i, " is ", TypeText(program.values[i]), ", derived is ", TypeText(expected[i]));
      }
    }
    return std::nullopt;
  });
}

Fault CollectiveSumsAddends(const Plan& plan, const SealFacts&) {
  return ForEachProgram(plan, [](const LayerClass&, const Program& program) -> Fault {
    for (const Step& step : program.steps) {
      const size_t expected = step.kind == StepKind::kCollective ? 1 : 0;
      if (step.collectives.size() != expected) {
        return absl::StrCat("step ", FindStep(step.kind)->mnemonic, " has ", step.collectives.size(),
                            " collectives, expected ", expected);
      }
      if (expected == 0) continue;
      const Value& input = program.values[step.inputs.front()];
      const Collective& collective = step.collectives.front();
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
