// Rules on degrees, devices, ranks, slots, pipeline stages, limits and heads.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "schema/meaning/rules.h"
#include "schema/meaning/shape_facts.h"
#include "schema/mesh_view.h"
#include "schema/version_numbers.h"

namespace meshseal::meaning {
namespace {

constexpr uint32_t kMostRanks = 65536;
constexpr uint32_t kMostTokens = 1u << 24;

// Links are all there, with a bandwidth each, or none is.
Fault CheckLinks(const Mesh& mesh) {
  if (mesh.island_links.empty()) {
    if (mesh.between_islands == Link{}) return std::nullopt;
    return std::string("a link between islands, and none inside them");
  }
  size_t islands = 0;
  for (const Node& node : mesh.nodes) islands = std::max<size_t>(islands, node.island + size_t{1});
  if (mesh.island_links.size() != islands) {
    return absl::StrCat(mesh.island_links.size(), " links of islands, the nodes are in ", islands);
  }
  for (size_t island = 0; island < islands; ++island) {
    if (mesh.island_links[island].bandwidth == 0)
      return absl::StrCat("the link of island ", island, " carries nothing");
  }
  if (islands == 1) {
    if (mesh.between_islands == Link{}) return std::nullopt;
    return std::string("a link between islands, and there is one island");
  }
  if (mesh.between_islands.bandwidth == 0) return std::string("the link between islands carries nothing");
  return std::nullopt;
}

Fault CheckVersions(const std::string& min, const std::string& max) {
  const std::optional<std::vector<uint32_t>> lowest = VersionNumbers(min);
  const std::optional<std::vector<uint32_t>> highest = VersionNumbers(max);
  const bool numbers = (min.empty() || lowest.has_value()) && (max.empty() || highest.has_value());
  const bool ascend = min.empty() || max.empty() || lowest <= highest;
  if (numbers && ascend) return std::nullopt;
  return absl::StrCat("transport versions '", min, "' to '", max, "' are no ascending numbers with dots");
}

// What one dense group brings to a step of `limit` tokens: all of them where the expert group is one dense group.
Fault CheckRankTokens(const char* what, uint32_t tokens, uint32_t limit, uint64_t dense_groups) {
  if (dense_groups == 1) {
    if (tokens == limit) return std::nullopt;
    return absl::StrCat(what, " ", tokens, ", all ranks bring the same ", limit);
  }
  if (tokens >= 1 && tokens <= limit && limit <= tokens * dense_groups) return std::nullopt;
  return absl::StrCat(what, " ", tokens, ", ", dense_groups, " dense groups bring at most ", limit, " in all");
}

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
  if (d.dense_tp == 0 || GroupSize(d) % d.dense_tp != 0) {
    return absl::StrCat("dense tp ", d.dense_tp, " does not divide the expert group of ", GroupSize(d), " ranks");
  }
  return std::nullopt;
}

Fault MeshIsCoherent(const Plan& plan, const SealFacts&) {
  const Mesh& mesh = plan.mesh;
  for (const DeviceKind& kind : mesh.device_kinds) {
    if (kind.memory_bytes == 0 || kind.usable_bytes > kind.memory_bytes) {
      return absl::StrCat("device kind '", kind.name, "' has ", kind.memory_bytes, " bytes, ", kind.usable_bytes,
                          " of them usable");
    }
    const bool has_device = kind.compute_capability != 0 || kind.shared_memory != 0 || kind.ecc != Ecc::kAny ||
                            kind.peer_access || kind.fabric;
    if (has_device && kind.memory_kind == MemoryKind::kHost) {
      return absl::StrCat("device kind '", kind.name, "' is a host's memory and says what a device is like");
    }
  }
  std::set<absl::string_view> pinned;
  for (const Node& node : mesh.nodes) {
    if (node.slots == 0) return absl::StrCat("node '", node.name, "' has no slot");
    if (node.island >= mesh.nodes.size()) {
      return absl::StrCat("node '", node.name, "' is in island ", node.island, " of at most ", mesh.nodes.size());
    }
    if (!node.identity.empty() && node.identity.size() != node.slots) {
      return absl::StrCat("node '", node.name, "' pins ", node.identity.size(), " devices and has ", node.slots,
                          " slots");
    }
    for (const std::string& device : node.identity) {
      if (!pinned.insert(device).second) return absl::StrCat("device '", device, "' is pinned twice");
    }
  }
  if (mesh.capturable && mesh.transport != Transport::kNccl) {
    return absl::StrCat("transport ", WordOf(mesh.transport), " is said to be capturable, only nccl is");
  }
  return FirstOf({CheckLinks(mesh), CheckVersions(mesh.transport_version_min, mesh.transport_version_max)});
}

Fault RanksHaveSlots(const Plan& plan, const SealFacts&) {
  const Mesh& mesh = plan.mesh;
  for (const Node& node : mesh.nodes) {
    if (node.device_kind >= mesh.device_kinds.size()) {
      return absl::StrCat("node '", node.name, "' is of device kind ", node.device_kind, ", there are ",
                          mesh.device_kinds.size());
    }
  }
  for (size_t rank = 0; rank < mesh.rank_slots.size(); ++rank) {
    const RankSlot& slot = mesh.rank_slots[rank];
    if (slot.node < mesh.nodes.size() && slot.slot < mesh.nodes[slot.node].slots) continue;
    return absl::StrCat("rank ", rank, " sits on node ", slot.node, " slot ", slot.slot, ", which does not exist");
  }
  if (mesh.emulated) return std::nullopt;
  // A plan nearly always has its ranks in the order of their slots.
  std::vector<uint32_t> ranks(mesh.rank_slots.size());
  std::iota(ranks.begin(), ranks.end(), 0u);
  const auto slot_of = [&mesh](uint32_t rank) {
    return std::make_pair(mesh.rank_slots[rank].node, mesh.rank_slots[rank].slot);
  };
  const auto before = [&](uint32_t a, uint32_t b) { return slot_of(a) < slot_of(b); };
  if (!std::is_sorted(ranks.begin(), ranks.end(), before)) std::stable_sort(ranks.begin(), ranks.end(), before);
  for (size_t i = 1; i < ranks.size(); ++i) {
    if (slot_of(ranks[i]) != slot_of(ranks[i - 1])) continue;
    const RankSlot& slot = mesh.rank_slots[ranks[i]];
    return absl::StrCat("rank ", ranks[i], " shares node ", slot.node, " slot ", slot.slot,
                        " with another rank and the mesh is not emulated");
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
  if (l.repack == Repack::kNone && l.repacked_bytes != 0) {
    return absl::StrCat(l.repacked_bytes, " bytes of repacked weights, which are used as stored");
  }
  const uint64_t dense_groups = DenseGroups(plan.degrees);
  return FirstOf({CheckRankTokens("rank_decode_tokens", l.rank_decode_tokens, l.decode_tokens, dense_groups),
                  CheckRankTokens("rank_prefill_tokens", l.rank_prefill_tokens, l.prefill_chunk, dense_groups)});
}

Fault HeadsFitDenseTp(const Plan& plan, const SealFacts&) {
  const Attention& a = plan.attention;
  const uint32_t dense_tp = plan.degrees.dense_tp;
  if (a == Attention{}) return std::nullopt;
  if (a.heads == 0 || a.kv_heads == 0 || a.head_dim == 0) {
    return absl::StrCat("attention has ", a.heads, " heads, ", a.kv_heads, " KV heads of ", a.head_dim,
                        ": all three are above 0, or none");
  }
  if (a.heads % a.kv_heads != 0) return absl::StrCat(a.kv_heads, " KV heads do not divide ", a.heads, " heads");
  if (a.heads % dense_tp != 0) return absl::StrCat("dense tp ", dense_tp, " does not divide ", a.heads, " heads");
  const bool whole = plan.kv_heads == KvHeads::kReplicate && dense_tp % a.kv_heads == 0;
  if (a.kv_heads % dense_tp != 0 && !whole) {
    return absl::StrCat("dense tp ", dense_tp, " does not fit ", a.kv_heads, " KV heads that it may ",
                        WordOf(plan.kv_heads));
  }
  return std::nullopt;
}

}  // namespace meshseal::meaning
