#include "schema/plan_diff_layers.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/field_comparison.h"

namespace meshseal {
namespace {

// Everything here may be called for a plan that the meaning gate refused, so every index is looked up with care.

// "2 copies: 3 on ep 1, 7 on ep 0".
std::string CopiesText(const std::vector<ExpertCopy>& copies) {
  constexpr size_t kShown = 16;
  if (copies.empty()) return std::string(kNone);
  std::vector<std::string> parts;
  for (size_t i = 0; i < copies.size() && i < kShown; ++i) {
    parts.push_back(absl::StrCat(copies[i].expert, " on ep ", copies[i].owner));
  }
  if (copies.size() > kShown) parts.push_back(absl::StrCat(copies.size() - kShown, " more"));
  return absl::StrCat(copies.size(), copies.size() == 1 ? " copy: " : " copies: ", absl::StrJoin(parts, ", "));
}

std::string SlotsText(const std::vector<uint64_t>& slots) {
  if (slots.empty()) return std::string(kNone);
  uint64_t sum = 0;
  for (const uint64_t of_expert : slots) sum += of_expert;  // of a refused plan any sum
  return absl::StrCat(sum, " over ", CountText(slots.size(), "expert"));
}

// Where the columns of each tp coordinate end.
std::string ColumnEndsText(const LayerClass& c) {
  std::vector<std::string> ends;
  for (const uint32_t segments : c.tp_segment_ends) {
    const uint32_t* end = segments == 0 ? nullptr : At(c.segment_ends, segments - 1);
    ends.push_back(end == nullptr ? "?" : absl::StrCat(*end));
  }
  return ends.empty() ? std::string(kNone) : absl::StrJoin(ends, ",");
}

void CompareRouter(const Router& a, const Router& b, const Comparison& c) {
  c.Field("scoring", a.scoring, b.scoring);
  c.Field("epsilon", a.epsilon, b.epsilon);
  c.Field("order", a.order, b.order);
  c.Field("renormalize", a.renormalize, b.renormalize);
  c.Field("guard", a.guard, b.guard);
  c.Field("groups.count", a.groups.count, b.groups.count);
  c.Field("groups.keep", a.groups.keep, b.groups.keep);
  c.Field("groups.score", a.groups.score, b.groups.score);
  c.Field("weight_applied", a.weight_applied, b.weight_applied);
  c.Field("input_dtype", a.input, b.input);
  c.Field("scale", a.scale, b.scale);
  c.Field("vocabulary", a.vocabulary, b.vocabulary);
}

void CompareActivations(const Activation& a, const Activation& b, const Comparison& c) {
  c.Field("kind", a.kind, b.kind);
  c.Field("alpha", a.alpha, b.alpha);
  c.Field("limit", a.limit, b.limit);
}

void CompareSharedExperts(const SharedExpert& a, const SharedExpert& b, const Comparison& c) {
  c.Field("width", a.width, b.width);
  c.Field("gate", a.gate, b.gate);
  CompareActivations(a.activation, b.activation, c.Under("activation"));
  c.Field("placement", a.placement, b.placement);
  c.Field("part_ends", a.part_ends, b.part_ends);
  c.Field("segment_ends", a.segment_ends, b.segment_ends);
}

std::string BlockText(const SideTensor& side) {
  if (side.block_rows == 0 && side.block_columns == 0) return "the whole matrix";
  return absl::StrCat(side.block_rows, " x ", side.block_columns);
}

void CompareSides(const TensorClass& a, const TensorClass& b, const Comparison& c) {
  c.Named(
      a.sides, b.sides, [](const SideTensor& side) { return std::string(WordOf(side.kind)); },
      [](const SideTensor& side) {
        return absl::StrCat(side.name, " ", FieldText(side.dtype), " of ", BlockText(side));
      },
      [](const Comparison& of_side, const SideTensor& x, const SideTensor& y) {
        of_side.Field("name", x.name, y.name);
        of_side.Field("dtype", x.dtype, y.dtype);
        of_side.Field("block", BlockText(x), BlockText(y));
        of_side.Field("applies", x.applies, y.applies);
        of_side.Field("of", x.of, y.of);
      });
}

void CompareTensors(const LayerClass& a, const LayerClass& b, const Comparison& c) {
  c.Named(
      a.tensors, b.tensors, [](const TensorClass& tensor) { return std::string(WordOf(tensor.role)); },
      [](const TensorClass& tensor) {
        return absl::StrCat(tensor.name, " ", FieldText(tensor.dtype), " ", ShapeText(tensor));
      },
      [](const Comparison& of_tensor, const TensorClass& x, const TensorClass& y) {
        of_tensor.Field("name", x.name, y.name);
        of_tensor.Field("dtype", x.dtype, y.dtype);
        of_tensor.Field("shape", ShapeText(x), ShapeText(y));
        of_tensor.Field("layout", x.layout, y.layout);
        of_tensor.Field("rotation", x.rotation, y.rotation);
        CompareSides(x, y, of_tensor);
      });
}

std::string StepsText(const Program& program) {
  return absl::StrJoin(program.steps, " ",
                       [](std::string* out, const Step& step) { absl::StrAppend(out, MnemonicOf(step)); });
}

std::string TypesText(const Program& program, const Step& step) {
  std::vector<std::string> types;
  for (const uint32_t output : step.outputs) {
    const Value* value = At(program.values, output);
    types.push_back(value == nullptr
                        ? "?"
                        : absl::StrCat(WordOf(value->order), RowsText(value->rows), " ", WordOf(value->width), " tp ",
                                       WordOf(value->tp), ", ep ", WordOf(value->ep),
                                       value->weighted ? ", weighted" : "", value->fixed_point ? ", fixed point" : ""));
  }
  return absl::StrJoin(types, "; ");
}

std::string OperandsText(const Step& step) {
  return absl::StrCat("%", absl::StrJoin(step.inputs, " %"), " -> %", absl::StrJoin(step.outputs, " %"), " tensors ",
                      FieldText(step.tensors));
}

std::string CollectivesText(const Step& step) {
  if (step.collectives.empty()) return std::string(kNone);
  return absl::StrJoin(step.collectives, "; ", [](std::string* out, const Collective& collective) {
    absl::StrAppend(out, WordOf(collective.op), " over ", WordOf(collective.group), collective.over_tp ? " tp" : "",
                    collective.over_ep ? " ep" : "");
  });
}

std::string LayoutsText(const Program& program) {
  if (program.layouts.empty()) return std::string(kNone);
  return absl::StrJoin(program.layouts, "; ", [](std::string* out, const WorkLayout& layout) {
    absl::StrAppend(out, layout.experts, " experts x ", layout.columns, " columns",
                    layout.shared_columns == 0 ? "" : absl::StrCat(" + ", layout.shared_columns, " shared"), ": ",
                    layout.arena_bytes, " B");
    if (layout.grouped_rows > 0) absl::StrAppend(out, ", ", layout.grouped_rows, " rows");
  });
}

void CompareProgram(const Program& a, const Program& b, const Comparison& c) {
  c.Field("max_tokens", a.max_tokens, b.max_tokens);
  c.Field("tile_rows", a.tile_rows, b.tile_rows);
  c.Field("index_bits", a.index_bits, b.index_bits);
  c.Field("reduce_algorithm", a.reduce_algorithm, b.reduce_algorithm);
  const std::string steps = StepsText(a);
  c.Field("steps", steps, StepsText(b));
  for (size_t i = 0; i < a.steps.size() && i < b.steps.size(); ++i) {
    if (a.steps[i].kind != b.steps[i].kind) break;  // from here on the lists have nothing to compare
    const Comparison of_step = c.Under(MnemonicOf(a.steps[i]));
    of_step.Field("type", TypesText(a, a.steps[i]), TypesText(b, b.steps[i]));
    of_step.Field("operands", OperandsText(a.steps[i]), OperandsText(b.steps[i]));
    of_step.Field("over", CollectivesText(a.steps[i]), CollectivesText(b.steps[i]));
  }
  c.Field("work", LayoutsText(a), LayoutsText(b));
}

FieldChanges CompareClasses(const LayerClass& a, const LayerClass& b) {
  FieldChanges changes;
  const Comparison c(&changes);
  c.Field("experts", a.experts, b.experts);
  c.Field("top_k", a.top_k, b.top_k);
  c.Field("intermediate", a.intermediate, b.intermediate);
  CompareRouter(a.router, b.router, c.Under("router"));
  CompareActivations(a.activation, b.activation, c.Under("activation"));
  CompareSharedExperts(a.shared_expert, b.shared_expert, c.Under("shared_expert"));
  c.Field("residual", a.residual, b.residual);
  c.Field("gate_up_basis", a.gate_up_basis, b.gate_up_basis);
  c.Field("down_basis", a.down_basis, b.down_basis);
  CompareTensors(a, b, c.Under("tensors"));
  c.Summary("expert_shards", a.expert_shards, b.expert_shards, OwnersText);
  c.Summary("expert_copies", a.expert_copies, b.expert_copies, CopiesText);
  c.Summary("load.slots", a.load.slots, b.load.slots, SlotsText);
  c.Field("load.busiest_contiguous", a.load.busiest_contiguous, b.load.busiest_contiguous);
  c.Field("load.busiest", a.load.busiest, b.load.busiest);
  c.Field("tp_column_ends", ColumnEndsText(a), ColumnEndsText(b));
  c.Field("segment_ends", a.segment_ends, b.segment_ends);
  c.Field("fraction_bits", a.fraction_bits, b.fraction_bits);
  c.Named(
      a.programs, b.programs, [](const Program& program) { return std::string(WordOf(program.phase)); }, StepsText,
      [](const Comparison& of_program, const Program& x, const Program& y) { CompareProgram(x, y, of_program); });
  return changes;
}
using ClassPair = std::pair<const LayerClass*, const LayerClass*>;

// Runs of layers with one pair of classes; null where a plan has no MoE layer. Linear in the number of ranges.
std::vector<std::pair<Interval, ClassPair>> ClassPairs(const Plan& a, const Plan& b) {
  struct Range {
    Interval layers;
    const LayerClass* layer_class;
  };
  const auto ranges = [](const Plan& plan) {
    std::vector<Range> sorted;
    for (const LayerClass& c : plan.layer_classes) {
      for (const LayerRange& range : c.layers) {
        if (range.first < range.last) sorted.push_back({{range.first, range.last}, &c});
      }
    }
    std::stable_sort(sorted.begin(), sorted.end(), [](const Range& x, const Range& y) { return x.layers < y.layers; });
    return sorted;
  };
  const std::vector<Range> of_a = ranges(a);
  const std::vector<Range> of_b = ranges(b);
  std::set<uint32_t> ends;
  for (const Range& range : of_a) ends.insert({range.layers.first, range.layers.last});
  for (const Range& range : of_b) ends.insert({range.layers.first, range.layers.last});
  std::vector<std::pair<Interval, ClassPair>> pairs;
  size_t i = 0;
  size_t j = 0;
  for (auto at = ends.begin(); at != ends.end() && std::next(at) != ends.end(); ++at) {
    const Interval layers = {*at, *std::next(at)};
    const auto holder = [&layers](const std::vector<Range>& sorted, size_t* next) -> const LayerClass* {
      while (*next < sorted.size() && sorted[*next].layers.last <= layers.first) ++*next;
      return *next < sorted.size() && sorted[*next].layers.first <= layers.first ? sorted[*next].layer_class : nullptr;
    };
    const ClassPair pair = {holder(of_a, &i), holder(of_b, &j)};
    if (pair.first != nullptr || pair.second != nullptr) pairs.emplace_back(layers, pair);
  }
  return pairs;
}

}  // namespace

std::vector<LayerChanges> CompareLayers(const Plan& a, const Plan& b) {
  std::vector<LayerChanges> layers;
  std::map<ClassPair, size_t> known;  // pair -> index in `layers`
  for (const auto& [interval, pair] : ClassPairs(a, b)) {
    auto found = known.find(pair);
    if (found == known.end()) {
      FieldChanges changes;
      if (pair.first == nullptr || pair.second == nullptr) {
        const auto text = [](const LayerClass* c) { return c == nullptr ? std::string(kNone) : "MoE"; };
        changes = {{"layers", text(pair.first), text(pair.second)}};
      } else {
        changes = CompareClasses(*pair.first, *pair.second);
      }
      const auto same = std::find_if(layers.begin(), layers.end(),
                                     [&changes](const LayerChanges& other) { return other.changes == changes; });
      found = known.emplace(pair, same - layers.begin()).first;
      if (same == layers.end()) layers.push_back({{}, std::move(changes)});
    }
    Intervals& of_changes = layers[found->second].layers;
    if (!of_changes.empty() && of_changes.back().last == interval.first) {
      of_changes.back().last = interval.last;
    } else {
      of_changes.push_back(interval);
    }
  }
  layers.erase(std::remove_if(layers.begin(), layers.end(), [](const LayerChanges& l) { return l.changes.empty(); }),
               layers.end());
  return layers;
}

}  // namespace meshseal
