// Rules on degrees, ranks, slots, pipeline stages and limits.
#include <cstdint>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/meaning/rules.h"
#include "schema/mesh_view.h"

namespace meshseal::meaning {
namespace {

constexpr uint32_t kMostRanks = 65536;
constexpr uint32_t kMostTokens = 1u << 24;

}  // namespace

Fault DegreesMakeWorld(const Plan& plan, const SealFacts&) {
  const Degrees& d = plan.degrees;
  const std::optional<uint32_t> world = WorldOf(d);
  if (!world.has_value() || *world > kMostRanks) {
    return absl::StrCat("degrees dp=", d.dp, " pp=", d.pp, " tp=", d.tp, " ep=", d.ep, " make no world of 1 to ",
                        kMostRanks, " ranks");
  }
  if (plan.mesh.rank_slots.size() != *world) {
    return absl::StrCat("the degrees make ", *world, " ranks, ", plan.mesh.rank_slots.size(), " have a slot");
  }
  // A smaller dense degree means that tokens differ inside the expert group: a gather, which no program has yet.
  if (uint64_t{d.dense_tp} != uint64_t{d.tp} * d.ep) {
    return absl::StrCat("dense tp ", d.dense_tp, ", the expert group has ", uint64_t{d.tp} * d.ep, " ranks");
  }
  return std::nullopt;
}

Fault RanksHaveSlots(const Plan& plan, const SealFacts&) {
  const Mesh& mesh = plan.mesh;
  for (const Node& node : mesh.nodes) {
    if (node.device_kind >= mesh.device_kinds.size()) {
      return absl::StrCat("node '", node.name, "' is of device kind ", node.device_kind, ", there are ",
                          mesh.device_kinds.size());
    }
  }
  std::set<std::pair<uint32_t, uint32_t>> taken;
  for (size_t rank = 0; rank < mesh.rank_slots.size(); ++rank) {
    const RankSlot& slot = mesh.rank_slots[rank];
    if (slot.node >= mesh.nodes.size() || slot.slot >= mesh.nodes[slot.node].slots) {
      return absl::StrCat("rank ", rank, " sits on node ", slot.node, " slot ", slot.slot, ", which does not exist");
    }
    if (!taken.emplace(slot.node, slot.slot).second && !mesh.emulated) {
      return absl::StrCat("rank ", rank, " shares node ", slot.node, " slot ", slot.slot,
                          " with another rank and the mesh is not emulated");
    }
  }
  return std::nullopt;
}

Fault StagesCoverLayers(const Plan& plan, const SealFacts&) {
  if (plan.stage_ends.size() != plan.degrees.pp) {
    return absl::StrCat(plan.stage_ends.size(), " pipeline stages, pp is ", plan.degrees.pp);
  }
  uint32_t end = 0;
  for (const uint32_t stage_end : plan.stage_ends) {
    if (stage_end <= end) return absl::StrCat("a pipeline stage ends at layer ", stage_end, " and starts at ", end);
    end = stage_end;
  }
  if (end != plan.layers) return absl::StrCat("the stages end at layer ", end, ", the model has ", plan.layers);
  return std::nullopt;
}

Fault LimitsAreCoherent(const Plan& plan, const SealFacts&) {
  const Limits& l = plan.limits;
  if (l.decode_tokens == 0 || l.decode_tokens > kMostTokens) {
    return absl::StrCat("decode_tokens ", l.decode_tokens, ", expected 1 to ", kMostTokens);
  }
  if (l.prefill_tokens == 0 || l.prefill_tokens > kMostTokens) {
    return absl::StrCat("prefill_tokens ", l.prefill_tokens, ", expected 1 to ", kMostTokens);
  }
  if (l.prefill_chunk == 0 || l.prefill_chunk > l.prefill_tokens) {
    return absl::StrCat("prefill_chunk ", l.prefill_chunk, ", expected 1 to prefill_tokens ", l.prefill_tokens);
  }
  uint32_t last = 0;
  for (const uint32_t bucket : l.decode_buckets) {
    if (bucket <= last) return absl::StrCat("decode bucket ", bucket, " after ", last, ", buckets ascend from 1");
    last = bucket;
  }
  if (last != l.decode_tokens) {
    return absl::StrCat("the largest decode bucket is ", last, ", decode_tokens is ", l.decode_tokens);
  }
  if (l.sessions == 0) return std::string("0 sessions, expected at least 1");
  return std::nullopt;
}

}  // namespace meshseal::meaning
