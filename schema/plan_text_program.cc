// The steps of programs: values with their types, and the line of the document that each step comes from.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/byte_text.h"
#include "schema/plan_text_parts.h"
#include "schema/plan_words.h"
#include "schema/rank_part.h"
#include "schema/step.h"

namespace meshseal {
namespace {

std::string ValueText(const Value& value) {
  return absl::StrCat(WordOf(value.order), RowsText(value.rows), " tp ", WordOf(value.tp), ", ep ", WordOf(value.ep),
                      value.weighted ? ", weighted" : "", value.fixed_point ? ", fixed point" : "");
}

// "softmax top4 renorm", "top4 softmax", "sigmoid top8 of 4/8 groups renorm x2.5".
std::string RouteText(const LayerClass& c) {
  const Router& router = c.router;
  std::string text = router.order == RouteOrder::kTopKThenScore
                         ? absl::StrCat("top", c.top_k, " ", WordOf(router.scoring))
                         : absl::StrCat(WordOf(router.scoring), " top", c.top_k);
  if (router.groups.count > 0) absl::StrAppend(&text, " of ", router.groups.keep, "/", router.groups.count, " groups");
  if (router.renormalize != Renormalize::kNone) absl::StrAppend(&text, " renorm");
  if (router.scale != 1.0f) absl::StrAppend(&text, " x", NumberText(router.scale));
  return text;
}

// `group` names the ranks of the expert group.
std::string StepText(const Plan& plan, const LayerClass& c, const Step& step, const std::string& group) {
  std::string text = MnemonicOf(step);
  switch (step.kind) {
    case StepKind::kRoute:
    case StepKind::kRouteByTable:
      return absl::StrCat(text, " ", RouteText(c));
    case StepKind::kActivation:
      return absl::StrCat(text, " ", ActivationText(c.activation));
    case StepKind::kSharedActivation:
      return absl::StrCat(text, " ", ActivationText(c.shared_expert.activation));
    case StepKind::kGather: {
      const uint64_t ranks = uint64_t{plan.degrees.tp} * plan.degrees.ep;
      const uint64_t parts = plan.degrees.dense_tp == 0 ? 0 : ranks / plan.degrees.dense_tp;
      return absl::StrCat(text, " of ", CountText(parts, "dense group"), " in ", group);
    }
    default:
      break;
  }
  for (const Collective& collective : step.collectives) {
    absl::StrAppend(&text, " ", WordOf(collective.op), " over ", group);
  }
  return text;
}

// Values that no step makes are named by what they are, the others by their number.
std::string OperandText(const Program& program, uint32_t number) {
  if (number == 0) return "%hidden";
  const Value* value = At(program.values, number);
  for (const Step& step : program.steps) {
    if (std::count(step.outputs.begin(), step.outputs.end(), number) > 0) value = nullptr;
  }
  if (value != nullptr && value->order == ValueOrder::kTokenId) return "%ids";
  if (value != nullptr && value->order == ValueOrder::kRouting) return "%given";
  return absl::StrCat("%", number);
}

std::string OperandsText(const Program& program, const std::vector<uint32_t>& values) {
  return absl::StrJoin(values, ", ", [&program](std::string* out, uint32_t number) {
    absl::StrAppend(out, OperandText(program, number));
  });
}

std::string OriginText(const Plan& plan, const Origin& origin) {
  const SourceDocument* source = At(plan.sources, origin.source);
  return source == nullptr ? "?" : absl::StrCat(Shown(source->name), ":", origin.line);
}

std::string BodyText(const Plan& plan, const LayerClass& c, const Program& program, const std::string& group) {
  std::vector<std::vector<std::string>> rows;
  for (const Step& step : program.steps) {
    std::vector<std::string> types;
    for (const uint32_t output : step.outputs) {
      const Value* value = At(program.values, output);
      types.push_back(value == nullptr ? "?" : ValueText(*value));
    }
    rows.push_back({absl::StrCat(OperandsText(program, step.outputs), " = ", StepText(plan, c, step, group)),
                    OperandsText(program, step.inputs), absl::StrCat(": ", absl::StrJoin(types, "; ")),
                    absl::StrCat("@ ", OriginText(plan, step.origin))});
  }
  std::string text;
  AppendTable(rows, "    ", &text);
  return text;
}

std::string HeadText(const Program& program) {
  return absl::StrCat(WordOf(program.phase), " (at most ", CountText(program.max_tokens, "token"),
                      program.tile_rows == 0 ? "" : absl::StrCat(", tiles of ", program.tile_rows, " rows"), ", ",
                      program.index_bits, "-bit indices)");
}

// The ranks of the expert group of `rank`: they follow each other.
std::string GroupText(const Plan& plan, uint32_t rank) {
  const uint32_t ranks = plan.degrees.tp * plan.degrees.ep;
  const uint32_t first = rank / ranks * ranks;
  return absl::StrCat("expert{", NumbersText({{first, first + ranks}}), "}");
}

const WorkLayout* LayoutOf(const Program& program, uint64_t experts, uint64_t columns, uint64_t shared_columns) {
  for (const WorkLayout& layout : program.layouts) {
    if (layout.experts == experts && layout.columns == columns && layout.shared_columns == shared_columns) {
      return &layout;
    }
  }
  return nullptr;
}

}  // namespace

void AppendPrograms(const Plan& plan, const std::vector<const LayerClass*>& classes, std::string* text) {
  const bool one_group = uint64_t{plan.degrees.dp} * plan.degrees.pp == 1;
  const std::string group =
      one_group ? GroupText(plan, 0)
                : absl::StrCat("expert{", CountText(uint64_t{plan.degrees.tp} * plan.degrees.ep, "rank"), "}");
  // Programs that read the same are told once, in the order of their first layers.
  std::vector<std::pair<std::string, std::string>> programs;
  std::map<std::pair<std::string, std::string>, Intervals> layers_of;
  for (const LayerClass* c : classes) {
    for (const Program& program : c->programs) {
      const std::pair<std::string, std::string> key = {HeadText(program), BodyText(plan, *c, program, group)};
      const auto [found, added] = layers_of.emplace(key, Intervals{});
      if (added) programs.push_back(key);
      for (const Interval& layers : LayersOf(*c)) found->second.push_back(layers);
    }
  }
  for (const std::pair<std::string, std::string>& program : programs) {
    absl::StrAppend(text, "  ", LayersText(Joined(layers_of[program])), " ", program.first, "\n", program.second);
  }
}

void AppendRankPrograms(const Plan& plan, const LayerClass& c, uint32_t rank, const Intervals& layers,
                        std::string* text) {
  const Coordinate at = CoordinateOf(plan.degrees, rank);
  const uint64_t experts = ExpertsOf(c, at.ep).all.size();
  const uint64_t columns = Count(ColumnsOf(c, at.tp));
  const uint64_t shared_columns = Count(SharedColumnsOf(c, plan.degrees, at.tp, at.ep));
  for (const Program& program : c.programs) {
    absl::StrAppend(text, "  ", LayersText(layers), " ", HeadText(program));
    if (const WorkLayout* layout = LayoutOf(program, experts, columns, shared_columns)) {
      absl::StrAppend(text, ": arena ", ByteText(layout->arena_bytes));
      if (layout->grouped_rows > 0) absl::StrAppend(text, " with room for ", layout->grouped_rows, " grouped rows");
    }
    absl::StrAppend(text, "\n", BodyText(plan, c, program, GroupText(plan, rank)));
  }
}

}  // namespace meshseal
