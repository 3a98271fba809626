#include "schema/plan_diff.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/field_comparison.h"
#include "schema/mesh_view.h"
#include "schema/plan_diff_layers.h"
#include "schema/plan_words.h"

namespace meshseal {
namespace {

// Everything here may be called for a plan that the meaning gate refused, so every index is looked up with care.

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
  c.Field("attention.heads", a.attention.heads, b.attention.heads);
  c.Field("attention.kv_heads", a.attention.kv_heads, b.attention.kv_heads);
  c.Field("attention.head_dim", a.attention.head_dim, b.attention.head_dim);
  c.Field("kv_heads", a.kv_heads, b.kv_heads);
  c.Field("expert_placement", a.expert_placement, b.expert_placement);
  c.Field("copy_choice", a.copy_choice, b.copy_choice);
  c.Field("failure_scope", a.failure_scope, b.failure_scope);
}

std::string KindOf(const Mesh& mesh, const Node& node) {
  const DeviceKind* kind = At(mesh.device_kinds, node.device_kind);
  return kind == nullptr ? "unknown kind" : kind->name;
}

std::string AnyText(const std::string& text) { return text.empty() ? "any" : text; }

std::string StatedText(uint64_t rate) { return rate == 0 ? std::string(kNone) : absl::StrCat(rate); }

std::string LinkText(const Link* link) {
  if (link == nullptr || *link == Link{}) return std::string(kNone);
  return absl::StrCat(link->bandwidth, " B/s after ", link->latency, " ns");
}

void CompareMesh(const Mesh& a, const Mesh& b, FieldChanges* changes) {
  const Comparison c(changes);
  c.Field("name", a.name, b.name);
  c.Field("emulated", a.emulated, b.emulated);
  c.Field("transport", a.transport, b.transport);
  c.Field("transport_version.min", AnyText(a.transport_version_min), AnyText(b.transport_version_min));
  c.Field("transport_version.max", AnyText(a.transport_version_max), AnyText(b.transport_version_max));
  c.Field("capturable", a.capturable, b.capturable);
  c.Under("device_kinds")
      .Named(
          a.device_kinds, b.device_kinds, [](const DeviceKind& kind) { return kind.name; },
          [](const DeviceKind& kind) { return absl::StrCat(kind.memory_bytes, " B ", WordOf(kind.memory_kind)); },
          [](const Comparison& of_kind, const DeviceKind& x, const DeviceKind& y) {
            of_kind.Field("memory_kind", x.memory_kind, y.memory_kind);
            of_kind.Field("memory_bytes", x.memory_bytes, y.memory_bytes);
            of_kind.Field("usable_bytes", x.usable_bytes, y.usable_bytes);
            of_kind.Field("communicator_bytes", x.communicator_bytes, y.communicator_bytes);
            of_kind.Field("bandwidth", StatedText(x.bandwidth), StatedText(y.bandwidth));
            of_kind.Field("bf16_rate", StatedText(x.bf16_rate), StatedText(y.bf16_rate));
            of_kind.Field("compute_capability", StatedText(x.compute_capability), StatedText(y.compute_capability));
            of_kind.Field("shared_memory", StatedText(x.shared_memory), StatedText(y.shared_memory));
            of_kind.Field("ecc", x.ecc, y.ecc);
            of_kind.Field("peer_access", x.peer_access, y.peer_access);
            of_kind.Field("fabric", x.fabric, y.fabric);
          });
  for (size_t i = 0; i < std::max(a.island_links.size(), b.island_links.size()); ++i) {
    const auto link = [i](const Mesh& mesh) { return At(mesh.island_links, i); };
    c.Field(absl::StrCat("island_links.", i), LinkText(link(a)), LinkText(link(b)));
  }
  c.Field("between_islands", LinkText(&a.between_islands), LinkText(&b.between_islands));
  std::map<const Node*, const Mesh*> mesh_of;
  for (const Node& node : a.nodes) mesh_of[&node] = &a;
  for (const Node& node : b.nodes) mesh_of[&node] = &b;
  c.Under("nodes").Named(
      a.nodes, b.nodes, [](const Node& node) { return node.name; },
      [&](const Node& node) {
        return absl::StrCat(CountText(node.slots, "slot"), " of ", KindOf(*mesh_of.at(&node), node), ", island ",
                            node.island);
      },
      [&](const Comparison& of_node, const Node& x, const Node& y) {
        of_node.Field("slots", x.slots, y.slots);
        of_node.Field("device_kind", KindOf(a, x), KindOf(b, y));
        of_node.Field("island", x.island, y.island);
        of_node.Field("identity", AnyText(absl::StrJoin(x.identity, ",")), AnyText(absl::StrJoin(y.identity, ",")));
      });
}

void CompareLimits(const Limits& a, const Limits& b, FieldChanges* changes) {
  const Comparison c(changes);
  c.Field("decode_tokens", a.decode_tokens, b.decode_tokens);
  c.Field("decode_buckets", a.decode_buckets, b.decode_buckets);
  c.Field("prefill_tokens", a.prefill_tokens, b.prefill_tokens);
  c.Field("prefill_chunk", a.prefill_chunk, b.prefill_chunk);
  c.Field("rank_decode_tokens", a.rank_decode_tokens, b.rank_decode_tokens);
  c.Field("rank_prefill_tokens", a.rank_prefill_tokens, b.rank_prefill_tokens);
  c.Field("sessions", a.sessions, b.sessions);
  c.Field("per_session_bytes", a.per_session_bytes, b.per_session_bytes);
  c.Field("headroom_bytes", a.headroom_bytes, b.headroom_bytes);
  c.Field("capture_bytes", a.capture_bytes, b.capture_bytes);
  c.Field("repack", a.repack, b.repack);
  c.Field("repacked_bytes", a.repacked_bytes, b.repacked_bytes);
}

void CompareNumerics(const Plan& a, const Plan& b, FieldChanges* changes) {
  const Comparison c(changes);
  c.Field("reduction", a.reduction, b.reduction);
  c.Field("exact_bound", a.exact_bound, b.exact_bound);
  c.Field("output_dtype", a.output, b.output);
  c.Field("numerics", a.numerics, b.numerics);
}

void CompareWeights(const Plan& a, const Plan& b, FieldChanges* changes) {
  const Comparison c(changes);
  c.Field("weight_source", a.weight_source, b.weight_source);
  c.Field("weight_seed", a.weight_seed, b.weight_seed);
  const auto digest = [](const Plan& plan) {
    return BindsWeights(plan) ? HexOf(plan.weights_digest) : std::string(kNone);
  };
  c.Field("weights_digest", digest(a), digest(b));
  const auto same = [](const std::string& pattern) { return pattern; };
  c.Under("ignored_tensors")
      .Named(
          a.ignored_tensors, b.ignored_tensors, same, [](const std::string&) { return std::string("ignored"); },
          [](const Comparison&, const std::string&, const std::string&) {});
  c.Field("other_weights_bytes.first", a.other_weights.first, b.other_weights.first);
  c.Field("other_weights_bytes.layers", a.other_weights.layers, b.other_weights.layers);
  c.Field("other_weights_bytes.last", a.other_weights.last, b.other_weights.last);
}

std::string NanosecondsText(uint64_t value) { return absl::StrCat(value, " ns"); }

void ComparePrices(const Plan& a, const Plan& b, FieldChanges* changes) {
  // Prices have no phase of their own: decode, prefill.
  constexpr Phase kPhases[] = {Phase::kDecode, Phase::kPrefill};
  for (size_t i = 0; i < std::max(a.prices.size(), b.prices.size()); ++i) {
    const std::string name = i < std::size(kPhases) ? WordOf(kPhases[i]) : absl::StrCat("prices.", i);
    const StepPrice* x = At(a.prices, i);
    const StepPrice* y = At(b.prices, i);
    if (x == nullptr || y == nullptr) {
      const auto text = [](const StepPrice* price) {
        return price == nullptr ? std::string(kNone) : NanosecondsText(price->nanoseconds);
      };
      Comparison(changes).Add(name, text(x), text(y));
      continue;
    }
    const Comparison c = Comparison(changes).Under(name);
    c.Field("tokens", x->tokens, y->tokens);
    c.Field("weight_bytes", x->weight_bytes, y->weight_bytes);
    c.Field("operations", x->operations, y->operations);
    c.Field("link_bytes", x->link_bytes, y->link_bytes);
    c.Field("between_bytes", x->between_bytes, y->between_bytes);
    c.Field("messages", x->messages, y->messages);
    c.Field("nanoseconds", x->nanoseconds, y->nanoseconds);
  }
}

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
  if (!diff.weights.empty() || !diff.layers.empty() || !diff.prices.empty() || a.memory != b.memory) return true;
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
  ComparePrices(a, b, &diff.prices);
  diff.largest_rank = {LargestRank(a), LargestRank(b)};
  // Numbers of rows in lists, offsets of buffers and the like have no line of their own.
  if (diff.relation == PlanRelation::kDifferent && !NamesADifference(diff, a, b)) {
    diff.plan.push_back({"content", "as sealed in A", "other order or offsets"});
  }
  return diff;
}

}  // namespace meshseal
