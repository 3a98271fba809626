#include "schema/plan_text.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "schema/byte_text.h"
#include "schema/mesh_view.h"
#include "schema/reason.h"

namespace meshseal {

std::string RangesText(const std::vector<uint32_t>& ascending) {
  std::string text;
  for (size_t i = 0; i < ascending.size();) {
    size_t j = i + 1;
    while (j < ascending.size() && ascending[j] == ascending[j - 1] + 1) ++j;
    absl::StrAppend(&text, text.empty() ? "" : "+", "[", ascending[i], ",", ascending[j - 1] + 1, ")");
    i = j;
  }
  return text.empty() ? "none" : text;
}

namespace {

// Everything here may be called for a plan that the meaning gate refused, so every index is looked up with care.
template <class T>
const T* At(const std::vector<T>& items, size_t index) {
  return index < items.size() ? &items[index] : nullptr;
}

std::string LayersText(const LayerClass& c) {
  std::vector<std::string> parts;
  for (const LayerRange& range : c.layers) {
    parts.push_back(range.last == range.first + 1 ? absl::StrCat(range.first)
                                                  : absl::StrCat(range.first, "-", range.last - 1));
  }
  return absl::StrCat(parts.size() == 1 && c.layers[0].last == c.layers[0].first + 1 ? "layer " : "layers ",
                      absl::StrJoin(parts, ","));
}

bool Holds(const LayerClass& c, uint32_t layer) {
  return std::any_of(c.layers.begin(), c.layers.end(),
                     [layer](const LayerRange& range) { return layer >= range.first && layer < range.last; });
}

std::vector<uint32_t> ExpertsOf(const LayerClass& c, uint32_t ep) {
  std::vector<uint32_t> experts;
  for (uint32_t e = 0; e < c.expert_shards.size(); ++e) {
    if (c.expert_shards[e].owner == ep) experts.push_back(e);
  }
  return experts;
}

// First and one-past-last column of a tp coordinate.
LayerRange ColumnsOf(const LayerClass& c, uint32_t tp) {
  const auto end = [&c](uint32_t of_tp) {
    const uint32_t* segments = At(c.tp_segment_ends, of_tp);
    const uint32_t* columns = segments == nullptr || *segments == 0 ? nullptr : At(c.segment_ends, *segments - 1);
    return columns == nullptr ? 0 : *columns;
  };
  return {tp == 0 ? 0 : end(tp - 1), end(tp)};
}

std::string DegreesText(const Degrees& d) {
  return absl::StrCat("dp=", d.dp, " pp=", d.pp, " tp=", d.tp, " ep=", d.ep);
}

std::string PlacementText(const Value& value) {
  return absl::StrCat("tp ", WordOf(value.tp), ", ep ", WordOf(value.ep));
}

std::string ValueText(const Value& value) {
  return absl::StrCat(WordOf(value.order), value.rows == RowSet::kOwned ? " owned" : "", " ", PlacementText(value));
}

std::string RouterText(const LayerClass& c) {
  std::string text = absl::StrCat(WordOf(c.router.scoring), " top", c.top_k);
  if (c.router.order == RouteOrder::kTopKThenScore) absl::StrAppend(&text, " before");
  if (c.router.renormalize == Renormalize::kSum) absl::StrAppend(&text, " renorm");
  if (c.router.scale != 1.0f) absl::StrAppend(&text, " x", c.router.scale);
  return text;
}

std::string StepText(const LayerClass& c, const Step& step) {
  const StepRow* row = FindStep(step.kind);
  std::string text = row == nullptr ? "invalid" : row->mnemonic;
  if (step.kind == StepKind::kRoute) absl::StrAppend(&text, " ", RouterText(c));
  if (step.kind == StepKind::kActivation) absl::StrAppend(&text, " ", WordOf(c.activation));
  for (const Collective& collective : step.collectives) {
    absl::StrAppend(&text, " ", WordOf(collective.op), " over ", WordOf(collective.group));
  }
  return text;
}

std::string OperandsText(const std::vector<uint32_t>& values) {
  std::vector<std::string> names;
  for (const uint32_t value : values) names.push_back(value == 0 ? "%hidden" : absl::StrCat("%", value));
  return absl::StrJoin(names, ", ");
}

std::string OriginText(const Plan& plan, const Origin& origin) {
  const SourceDocument* source = At(plan.sources, origin.source);
  return source == nullptr ? "?" : absl::StrCat(source->name, ":", origin.line);
}

void AppendProgram(const Plan& plan, const LayerClass& c, const Program& program, const std::string& layers,
                   std::string* text) {
  absl::StrAppendFormat(text, "  %s %s (at most %d tokens%s)\n", layers, WordOf(program.phase), program.max_tokens,
                        program.tile_rows == 0 ? "" : absl::StrCat(", tiles of ", program.tile_rows, " rows"));
  for (const Step& step : program.steps) {
    std::vector<std::string> types;
    for (const uint32_t output : step.outputs) {
      const Value* value = At(program.values, output);
      types.push_back(value == nullptr ? "?" : ValueText(*value));
    }
    absl::StrAppendFormat(text, "    %-8s = %-32s %-14s : %-42s @ %s\n", OperandsText(step.outputs), StepText(c, step),
                          OperandsText(step.inputs), absl::StrJoin(types, "; "), OriginText(plan, step.origin));
  }
}

std::string SlotText(const Plan& plan, uint32_t rank) {
  const RankSlot* slot = At(plan.mesh.rank_slots, rank);
  const Node* node = slot == nullptr ? nullptr : At(plan.mesh.nodes, slot->node);
  if (node == nullptr) return "nowhere";
  return absl::StrCat("node ", node->name, " slot ", slot->slot);
}

void AppendRankTable(const Plan& plan, uint32_t world, std::string* text) {
  for (const LayerClass& c : plan.layer_classes) {
    absl::StrAppendFormat(text, "%s: %d experts, top %d, %d hidden x %d columns\n", LayersText(c), c.experts, c.top_k,
                          plan.hidden, c.intermediate);
    absl::StrAppend(text,
                    "  rank  coordinate         experts      columns      weights     work        total       of\n");
    for (uint32_t rank = 0; rank < world; ++rank) {
      const Coordinate at = CoordinateOf(plan.degrees, rank);
      const LayerRange columns = ColumnsOf(c, at.tp);
      const RankMemory* memory = At(plan.memory, rank);
      const RankMemory none;
      const RankMemory& m = memory == nullptr ? none : *memory;
      absl::StrAppendFormat(text, "  %-4d  %-17s  %-11s  %-11s  %-10s  %-10s  %-10s  %s\n", rank, CoordinateText(at),
                            RangesText(ExpertsOf(c, at.ep)), absl::StrCat("[", columns.first, ",", columns.last, ")"),
                            ByteText(m.weights), ByteText(m.work), ByteText(m.total), ByteText(m.budget));
    }
  }
}

void AppendRank(const Plan& plan, uint32_t rank, const ListingOptions& options, std::string* text) {
  const Coordinate at = CoordinateOf(plan.degrees, rank);
  absl::StrAppend(text, "rank ", rank, " (", CoordinateText(at), ") ", SlotText(plan, rank), "\n");
  if (const RankMemory* m = At(plan.memory, rank)) {
    absl::StrAppend(text, "  weights ", ByteText(m->weights), ", not MoE ", ByteText(m->other), ", work ",
                    ByteText(m->work), ", collective ", ByteText(m->collective), ", sessions ", ByteText(m->sessions),
                    ": ", ByteText(m->total), " of ", ByteText(m->budget), " (", ByteText(plan.limits.headroom_bytes),
                    " headroom left free)\n");
  }
  for (const LayerClass& c : plan.layer_classes) {
    if (options.layer.has_value() && !Holds(c, *options.layer)) continue;
    const LayerRange columns = ColumnsOf(c, at.tp);
    absl::StrAppend(text, "  ", LayersText(c), ": experts ", RangesText(ExpertsOf(c, at.ep)), " of ", c.experts,
                    ", columns [", columns.first, ",", columns.last, ") of ", c.intermediate, "\n");
    const std::string layers = options.layer.has_value() ? absl::StrCat("layer ", *options.layer) : LayersText(c);
    for (const Program& program : c.programs) AppendProgram(plan, c, program, layers, text);
  }
}

}  // namespace

absl::StatusOr<std::string> ListPlan(const Plan& plan, absl::string_view id, absl::string_view standing,
                                     const ListingOptions& options) {
  const uint32_t world = WorldOf(plan.degrees).value_or(0);
  if (options.rank.has_value() && *options.rank >= world) {
    return Refuse(Reason::kUsage, absl::StrCat("the plan has no rank ", *options.rank, ", its world is ", world));
  }
  if (options.layer.has_value() && std::none_of(plan.layer_classes.begin(), plan.layer_classes.end(),
                                                [&](const LayerClass& c) { return Holds(c, *options.layer); })) {
    return Refuse(Reason::kUsage, absl::StrCat("the plan has no MoE layer ", *options.layer));
  }
  std::string text;
  absl::StrAppend(&text, "plan \"", plan.model_name, " on ", plan.mesh.name, "\" id ", id, "  format ",
                  kPlanFormatMajor, ".", kPlanFormatMinor, "  ", standing, "\n");
  absl::StrAppend(&text, "mesh ", DegreesText(plan.degrees), " world=", world, "  dense tp=", plan.degrees.dense_tp,
                  "  reduction ", WordOf(plan.reduction), " (", WordOf(plan.reduce_algorithm), ")",
                  plan.mesh.emulated ? "  EMULATED: ranks share slots" : "", "\n");
  absl::StrAppend(&text, "from");
  for (const SourceDocument& source : plan.sources) {
    absl::StrAppend(&text, " ", source.name, " ", HexOf(source.digest).substr(0, 12));
  }
  absl::StrAppend(&text, "  made by meshseal ", plan.compiler_version, "\n");
  absl::StrAppend(&text, "limits decode ", plan.limits.decode_tokens, " tokens, prefill ", plan.limits.prefill_tokens,
                  " in chunks of ", plan.limits.prefill_chunk, ", ", plan.limits.sessions, " sessions; weights ",
                  WordOf(plan.weight_source), ", not bound by digest\n");
  if (world == 0) return text;
  if (!options.rank.has_value()) AppendRankTable(plan, world, &text);
  AppendRank(plan, options.rank.value_or(0), options, &text);
  return text;
}

}  // namespace meshseal
