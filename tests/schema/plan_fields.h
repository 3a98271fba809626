// A walk over every field of a plan, down to the numbers, words and texts it is made of.
#ifndef MESHSEAL_TESTS_SCHEMA_PLAN_FIELDS_H_
#define MESHSEAL_TESTS_SCHEMA_PLAN_FIELDS_H_

#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "schema/plan.h"

namespace meshseal {

// Calls f(name, field) for each field, in the order of plan.h. The structured binding has to name them all, so that a
// field that is added to plan.h and not here does not compile.
#define MESHSEAL_FIELDS(Type, ...)                       \
  template <class F>                                     \
  void ForEachField(Type& fields, F f) {                 \
    auto& [__VA_ARGS__] = fields;                        \
    fields_internal::Name(f, #__VA_ARGS__, __VA_ARGS__); \
  }

namespace fields_internal {

// `names`: those of `fields`, with commas between them.
template <class F, class... Fields>
void Name(F& f, absl::string_view names, Fields&... fields) {
  const auto next = [&names] {
    const size_t end = names.find(',');
    const absl::string_view name = names.substr(0, end);
    names.remove_prefix(end == absl::string_view::npos ? names.size() : end + 2);
    return name;
  };
  (f(next(), fields), ...);
}

}  // namespace fields_internal

MESHSEAL_FIELDS(Origin, source, line)
MESHSEAL_FIELDS(SourceDocument, name, digest)
MESHSEAL_FIELDS(Degrees, dp, pp, tp, ep, dense_tp)
MESHSEAL_FIELDS(DeviceKind, name, memory_kind, memory_bytes, usable_bytes, communicator_bytes, bandwidth, bf16_rate,
                compute_capability, shared_memory, ecc, peer_access, fabric)
MESHSEAL_FIELDS(Link, bandwidth, latency)
MESHSEAL_FIELDS(Node, name, device_kind, slots, island, identity)
MESHSEAL_FIELDS(RankSlot, node, slot)
MESHSEAL_FIELDS(Mesh, name, emulated, transport, transport_version_min, transport_version_max, capturable, device_kinds,
                nodes, rank_slots, island_links, between_islands)
MESHSEAL_FIELDS(Limits, decode_tokens, decode_buckets, prefill_tokens, prefill_chunk, rank_decode_tokens,
                rank_prefill_tokens, sessions, per_session_bytes, headroom_bytes, capture_bytes, repack, repacked_bytes)
MESHSEAL_FIELDS(Attention, heads, kv_heads, head_dim)
MESHSEAL_FIELDS(OtherWeights, first, layers, last)
MESHSEAL_FIELDS(RouterGroups, count, keep, score)
MESHSEAL_FIELDS(Router, scoring, epsilon, order, renormalize, guard, groups, weight_applied, input, scale, vocabulary)
MESHSEAL_FIELDS(Activation, kind, alpha, limit)
MESHSEAL_FIELDS(SharedExpert, width, gate, activation, placement, part_ends, segment_ends)
MESHSEAL_FIELDS(SideTensor, kind, dtype, name, block_rows, block_columns, applies, of)
MESHSEAL_FIELDS(TensorClass, role, dtype, name, shape, layout, rotation, sides)
MESHSEAL_FIELDS(Value, order, width, rows, tp, ep, weighted, fixed_point)
MESHSEAL_FIELDS(Collective, op, group, over_tp, over_ep)
MESHSEAL_FIELDS(Step, kind, inputs, outputs, tensors, collectives, origin)
MESHSEAL_FIELDS(Buffer, offset, bytes)
MESHSEAL_FIELDS(WorkLayout, experts, columns, shared_columns, grouped_rows, arena_bytes, buffers)
MESHSEAL_FIELDS(Program, phase, max_tokens, tile_rows, index_bits, reduce_algorithm, values, steps, layouts)
MESHSEAL_FIELDS(LayerRange, first, last)
MESHSEAL_FIELDS(ExpertShard, owner, local)
MESHSEAL_FIELDS(ExpertCopy, expert, owner, local)
MESHSEAL_FIELDS(LoadBalance, slots, busiest_contiguous, busiest)
MESHSEAL_FIELDS(LayerClass, layers, experts, top_k, intermediate, router, activation, shared_expert, residual,
                gate_up_basis, down_basis, tensors, expert_shards, expert_copies, load, segment_ends, tp_segment_ends,
                fraction_bits, programs)
MESHSEAL_FIELDS(RankMemory, weights, other, repacked, staging, decode_work, prefill_work, collective, communicator,
                capture, sessions, total, budget)
MESHSEAL_FIELDS(StepPrice, tokens, weight_bytes, operations, link_bytes, between_bytes, messages, nanoseconds)
MESHSEAL_FIELDS(Plan, compiler_version, schema_fingerprint, model_name, model_family, deployment_name, sources, mesh,
                degrees, stage_ends, layers, hidden, attention, kv_heads, other_weights, limits, expert_placement,
                copy_choice, reduction, exact_bound, output, numerics, failure_scope, weight_source, weight_seed,
                ignored_tensors, layer_classes, memory, prices, execution_fingerprint, weights_digest)

#undef MESHSEAL_FIELDS

// What a walk ends at.
template <class T>
inline constexpr bool kIsLeaf =
    std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, std::string> || std::is_same_v<T, Sha256Digest>;

template <class T>
inline constexpr bool kIsList = false;
template <class T>
inline constexpr bool kIsList<std::vector<T>> = true;

// Calls visitor.Leaf(path, leaf) for each leaf and, before its elements, visitor.List(path, list) for each list. Paths
// are such as "layer_classes[].router.scale". Of a list, the elements that visitor.Elements(size) names are walked.
template <class T, class Visitor>
void WalkFields(const std::string& path, T& of, Visitor& visitor) {
  if constexpr (kIsLeaf<T>) {
    visitor.Leaf(path, of);
  } else if constexpr (kIsList<T>) {
    visitor.List(path, of);
    for (const size_t i : visitor.Elements(of.size())) WalkFields(absl::StrCat(path, "[]"), of[i], visitor);
  } else {
    ForEachField(of, [&](absl::string_view name, auto& field) {
      WalkFields(path.empty() ? std::string(name) : absl::StrCat(path, ".", name), field, visitor);
    });
  }
}

}  // namespace meshseal

#endif  // MESHSEAL_TESTS_SCHEMA_PLAN_FIELDS_H_
