#include "schema/plan_diff.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "schema/dtype.h"
#include "schema/mesh_view.h"
#include "schema/step.h"

namespace meshseal {
namespace {

constexpr absl::string_view kNone = "none";

// Everything here may be called for a plan that the meaning gate refused, so every index is looked up with care.
template <class T>
const T* At(const std::vector<T>& items, size_t index) {
  return index < items.size() ? &items[index] : nullptr;
}

std::string Text(const std::string& text) { return text; }
std::string Text(bool value) { return value ? "yes" : "no"; }
std::string Text(uint32_t value) { return absl::StrCat(value); }
std::string Text(uint64_t value) { return absl::StrCat(value); }
std::string Text(float value) { return absl::StrFormat("%.9g", value); }  // distinct for distinct floats
std::string Text(DType dtype) { return std::string(DTypeName(dtype)); }
std::string Text(const std::vector<uint32_t>& values) {
  return values.empty() ? std::string(kNone) : absl::StrJoin(values, ",");
}
template <class E, class = std::enable_if_t<std::is_enum_v<E>>>
std::string Text(E term) {
  return WordOf(term);
}

// Collects the fields that differ, under one prefix.
class Comparison {
 public:
  explicit Comparison(FieldChanges* changes, std::string prefix = "")
      : changes_(*changes), prefix_(std::move(prefix)) {}

  template <class T>
  void Field(absl::string_view name, const T& a, const T& b) const {
    std::string text_a = Text(a);
    std::string text_b = Text(b);
    if (text_a != text_b) Add(name, std::move(text_a), std::move(text_b));
  }

  void Add(absl::string_view name, std::string a, std::string b) const {
    changes_.push_back({absl::StrCat(prefix_, name), std::move(a), std::move(b)});
  }

  Comparison Under(absl::string_view name) const { return Comparison(&changes_, absl::StrCat(prefix_, name, ".")); }

  // Things with a name: `compare(Comparison, a, b)` for those of both plans, text(thing) where only one has it.
  template <class T, class Name, class TextOf, class Compare>
  void Named(const std::vector<T>& a, const std::vector<T>& b, Name name, TextOf text, Compare compare) const {
    std::map<std::string, const T*> of_b;
    for (const T& item : b) of_b.emplace(name(item), &item);
    std::set<std::string> in_a;
    for (const T& item : a) {
      in_a.insert(name(item));
      const auto found = of_b.find(name(item));
      if (found == of_b.end()) {
        Add(name(item), text(item), std::string(kNone));
      } else {
        compare(Under(name(item)), item, *found->second);
      }
    }
    for (const T& item : b) {
      if (in_a.count(name(item)) == 0) Add(name(item), std::string(kNone), text(item));
    }
  }

 private:
  FieldChanges& changes_;
  std::string prefix_;
};

void CompareOrigin(const Plan& a, const Plan& b, FieldChanges* changes) {
  const Comparison c(changes);
  c.Field("compiler_version", a.compiler_version, b.compiler_version);
  for (size_t i = 0; i < std::max(a.sources.size(), b.sources.size()); ++i) {
    const auto text = [i](const Plan& plan) {
      const SourceDocument* source = At(plan.sources, i);
      return source == nullptr ? std::string(kNone)
                               : absl::StrCat(source->name, " ", HexOf(source->digest).substr(0, 12));
    };
    c.Field(absl::StrCat("sources.", i), text(a), text(b));
  }
}

void ComparePlan(const Plan& a, const Plan& b, FieldChanges* changes) {
  const Comparison c(changes);
  c.Field("model_name", a.model_name, b.model_name);
  c.Field("model_family", a.model_family, b.model_family);
  c.Field("deployment_name", a.deployment_name, b.deployment_name);
  c.Field("schema_fingerprint", HexOf(a.schema_fingerprint), HexOf(b.schema_fingerprint));
  c.Field("degrees.dp", a.degrees.dp, b.degrees.dp);
  c.Field("degrees.pp", a.degrees.pp, b.degrees.pp);
  c.Field("degrees.tp", a.degrees.tp, b.degrees.tp);
  c.Field("degrees.ep", a.degrees.ep, b.degrees.ep);
  c.Field("degrees.dense_tp", a.degrees.dense_tp, b.degrees.dense_tp);
  c.Field("world", WorldOf(a.degrees).value_or(0), WorldOf(b.degrees).value_or(0));
  c.Field("layers", a.layers, b.layers);
  c.Field("hidden", a.hidden, b.hidden);
  c.Field("stage_ends", a.stage_ends, b.stage_ends);
  c.Field("failure_scope", a.failure_scope, b.failure_scope);
}

std::string KindOf(const Mesh& mesh, const Node& node) {
  const DeviceKind* kind = At(mesh.device_kinds, node.device_kind);
  return kind == nullptr ? "unknown kind" : kind->name;
}

void CompareMesh(const Mesh& a, const Mesh& b, FieldChanges* changes) {
  const Comparison c(changes);
  c.Field("name", a.name, b.name);
  c.Field("emulated", a.emulated, b.emulated);
  c.Field("transport", a.transport, b.transport);
  c.Under("device_kinds")
      .Named(
          a.device_kinds, b.device_kinds, [](const DeviceKind& kind) { return kind.name; },
          [](const DeviceKind& kind) { return absl::StrCat(kind.memory_bytes, " B ", WordOf(kind.memory_kind)); },
          [](const Comparison& of_kind, const DeviceKind& x, const DeviceKind& y) {
            of_kind.Field("memory_kind", x.memory_kind, y.memory_kind);
            of_kind.Field("memory_bytes", x.memory_bytes, y.memory_bytes);
            of_kind.Field("usable_bytes", x.usable_bytes, y.usable_bytes);
            of_kind.Field("communicator_bytes", x.communicator_bytes, y.communicator_bytes);
          });
  std::map<const Node*, const Mesh*> mesh_of;
  for (const Node& node : a.nodes) mesh_of[&node] = &a;
  for (const Node& node : b.nodes) mesh_of[&node] = &b;
  c.Under("nodes").Named(
      a.nodes, b.nodes, [](const Node& node) { return node.name; },
      [&](const Node& node) { return absl::StrCat(node.slots, " slots of ", KindOf(*mesh_of.at(&node), node)); },
      [&](const Comparison& of_node, const Node& x, const Node& y) {
        of_node.Field("slots", x.slots, y.slots);
        of_node.Field("device_kind", KindOf(a, x), KindOf(b, y));
      });
}

void CompareLimits(const Limits& a, const Limits& b, FieldChanges* changes) {
  const Comparison c(changes);
  c.Field("decode_tokens", a.decode_tokens, b.decode_tokens);
  c.Field("decode_buckets", a.decode_buckets, b.decode_buckets);
  c.Field("prefill_tokens", a.prefill_tokens, b.prefill_tokens);
  c.Field("prefill_chunk", a.prefill_chunk, b.prefill_chunk);
  c.Field("sessions", a.sessions, b.sessions);
  c.Field("per_session_bytes", a.per_session_bytes, b.per_session_bytes);
  c.Field("headroom_bytes", a.headroom_bytes, b.headroom_bytes);
}

void CompareNumerics(const Plan& a, const Plan& b, FieldChanges* changes) {
  const Comparison c(changes);
  c.Field("reduction", a.reduction, b.reduction);
  c.Field("reduce_algorithm", a.reduce_algorithm, b.reduce_algorithm);
  c.Field("output_dtype", a.output, b.output);
  c.Field("numerics", a.numerics, b.numerics);
}

void CompareWeights(const Plan& a, const Plan& b, FieldChanges* changes) {
  const Comparison c(changes);
  c.Field("weight_source", a.weight_source, b.weight_source);
  const auto same = [](const std::string& pattern) { return pattern; };
  c.Under("ignored_tensors")
      .Named(
          a.ignored_tensors, b.ignored_tensors, same, [](const std::string&) { return std::string("ignored"); },
          [](const Comparison&, const std::string&, const std::string&) {});
  c.Field("other_weights_bytes", a.other_weights_bytes, b.other_weights_bytes);
}

// "contiguous over 4", when the experts of each ep coordinate are one run after the other's.
std::string OwnersText(const LayerClass& c) {
  const std::vector<ExpertShard>& shards = c.expert_shards;
  uint32_t owners = 0;
  for (const ExpertShard& shard : shards) owners = std::max(owners, shard.owner);
  if (!shards.empty()) ++owners;
  bool contiguous = true;
  bool round_robin = true;
  for (size_t e = 0; e < shards.size(); ++e) {
    contiguous &= e == 0 || shards[e].owner == shards[e - 1].owner || shards[e].owner == shards[e - 1].owner + 1;
    round_robin &= shards[e].owner == e % std::max(owners, 1u);
  }
  return absl::StrCat(contiguous ? "contiguous" : round_robin ? "round robin" : "listed", " over ", owners);
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
  c.Field("order", a.order, b.order);
  c.Field("renormalize", a.renormalize, b.renormalize);
  c.Field("weight_applied", a.weight_applied, b.weight_applied);
  c.Field("input_dtype", a.input, b.input);
  c.Field("scale", a.scale, b.scale);
}

std::string ShapeText(const TensorClass& tensor) {
  return absl::StrCat(
      "[",
      absl::StrJoin(tensor.shape, ", ", [](std::string* out, ShapeAxis axis) { absl::StrAppend(out, WordOf(axis)); }),
      "]");
}

void CompareTensors(const LayerClass& a, const LayerClass& b, const Comparison& c) {
  c.Named(
      a.tensors, b.tensors, [](const TensorClass& tensor) { return std::string(WordOf(tensor.role)); },
      [](const TensorClass& tensor) {
        return absl::StrCat(tensor.name, " ", Text(tensor.dtype), " ", ShapeText(tensor));
      },
      [](const Comparison& of_tensor, const TensorClass& x, const TensorClass& y) {
        of_tensor.Field("name", x.name, y.name);
        of_tensor.Field("dtype", x.dtype, y.dtype);
        of_tensor.Field("shape", ShapeText(x), ShapeText(y));
      });
}

const char* MnemonicOf(const Step& step) {
  const StepRow* row = FindStep(step.kind);
  return row == nullptr ? "invalid" : row->mnemonic;
}

std::string StepsText(const Program& program) {
  return absl::StrJoin(program.steps, " ",
                       [](std::string* out, const Step& step) { absl::StrAppend(out, MnemonicOf(step)); });
}

std::string TypesText(const Program& program, const Step& step) {
  std::vector<std::string> types;
  for (const uint32_t output : step.outputs) {
    const Value* value = At(program.values, output);
    types.push_back(value == nullptr ? "?"
                                     : absl::StrCat(WordOf(value->order), value->rows == RowSet::kOwned ? " owned" : "",
                                                    " ", WordOf(value->width), " tp ", WordOf(value->tp), ", ep ",
                                                    WordOf(value->ep), value->weighted ? ", weighted" : ""));
  }
  return absl::StrJoin(types, "; ");
}

std::string OperandsText(const Step& step) {
  return absl::StrCat("%", absl::StrJoin(step.inputs, " %"), " -> %", absl::StrJoin(step.outputs, " %"), " tensors ",
                      Text(step.tensors));
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
    absl::StrAppend(out, layout.experts, " experts x ", layout.columns, " columns: ", layout.arena_bytes, " B");
    if (layout.grouped_rows > 0) absl::StrAppend(out, ", ", layout.grouped_rows, " rows");
  });
}

void CompareProgram(const Program& a, const Program& b, const Comparison& c) {
  c.Field("max_tokens", a.max_tokens, b.max_tokens);
  c.Field("tile_rows", a.tile_rows, b.tile_rows);
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
  c.Field("activation", a.activation, b.activation);
  c.Field("residual", a.residual, b.residual);
  c.Field("gate_up_basis", a.gate_up_basis, b.gate_up_basis);
  c.Field("down_basis", a.down_basis, b.down_basis);
  CompareTensors(a, b, c.Under("tensors"));
  c.Field("expert_shards", OwnersText(a), OwnersText(b));
  c.Field("tp_column_ends", ColumnEndsText(a), ColumnEndsText(b));
  c.Field("segment_ends", a.segment_ends, b.segment_ends);
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

// The plan without where it came from.
Plan WithoutOrigin(const Plan& plan) {
  Plan bare = plan;
  bare.compiler_version.clear();
  bare.sources.clear();
  for (LayerClass& c : bare.layer_classes) {
    for (Program& program : c.programs) {
      for (Step& step : program.steps) step.origin = {};
    }
  }
  return bare;
}

std::optional<uint32_t> LargestRank(const Plan& plan) {
  const auto largest = std::max_element(plan.memory.begin(), plan.memory.end(),
                                        [](const RankMemory& x, const RankMemory& y) { return x.total < y.total; });
  if (largest == plan.memory.end()) return std::nullopt;
  return static_cast<uint32_t>(largest - plan.memory.begin());
}

// Whether `diff` names anything that makes the plans different.
bool NamesADifference(const PlanDiff& diff, const Plan& a, const Plan& b) {
  if (!diff.plan.empty() || !diff.mesh.empty() || !diff.limits.empty() || !diff.numerics.empty()) return true;
  if (!diff.weights.empty() || !diff.layers.empty() || a.memory != b.memory) return true;
  if (!diff.moves.ok()) return false;
  return std::any_of(diff.moves->slots.begin(), diff.moves->slots.end(), [](const SlotMoves& slot) {
    return slot.rank.a != slot.rank.b || slot.weights.dropped > 0 || slot.weights.received > 0;
  });
}

}  // namespace

PlanDiff DiffPlans(const Plan& a, const Plan& b) {
  PlanDiff diff;
  diff.moves = MovesBetween(a, b);
  if (!(a == b)) {
    diff.relation = WithoutOrigin(a) == WithoutOrigin(b) ? PlanRelation::kOrigin : PlanRelation::kDifferent;
  }
  diff.same_execution = a.execution_fingerprint == b.execution_fingerprint;
  CompareOrigin(a, b, &diff.origin);
  ComparePlan(a, b, &diff.plan);
  CompareMesh(a.mesh, b.mesh, &diff.mesh);
  CompareLimits(a.limits, b.limits, &diff.limits);
  CompareNumerics(a, b, &diff.numerics);
  CompareWeights(a, b, &diff.weights);
  diff.layers = CompareLayers(a, b);
  diff.largest_rank = {LargestRank(a), LargestRank(b)};
  // Numbers of rows in lists, offsets of buffers and the like have no line of their own.
  if (diff.relation == PlanRelation::kDifferent && !NamesADifference(diff, a, b)) {
    diff.plan.push_back({"content", "as sealed in A", "other order or offsets"});
  }
  return diff;
}

}  // namespace meshseal
