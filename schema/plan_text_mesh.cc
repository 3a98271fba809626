// The mesh of a listing: devices, nodes with their ranks, stages and what they hand over.
#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/byte_text.h"
#include "schema/plan_text_parts.h"
#include "schema/plan_words.h"

namespace meshseal {
namespace {

std::string LinkText(const Link& link) {
  return absl::StrCat(PerSecondText(link.bandwidth, "B/s"), " after ", link.latency, " ns");
}

// Islands with the same link are told together.
void AppendLinks(const Mesh& mesh, std::string* text) {
  const std::vector<Link>& links = mesh.island_links;
  if (links.empty()) return;
  absl::StrAppend(text, "; links ");
  if (std::all_of(links.begin(), links.end(), [&](const Link& link) { return link == links.front(); })) {
    absl::StrAppend(text, "inside islands ", LinkText(links.front()));
  } else {
    for (size_t i = 0; i < links.size() && i < kMostIntervals; ++i) {
      absl::StrAppend(text, i == 0 ? "" : ", ", "inside island ", i, " ", LinkText(links[i]));
    }
    if (links.size() > kMostIntervals) absl::StrAppend(text, ", ", links.size() - kMostIntervals, " more");
  }
  if (!(mesh.between_islands == Link{})) absl::StrAppend(text, ", between them ", LinkText(mesh.between_islands));
}

void AppendKinds(const Plan& plan, std::string* text) {
  for (const DeviceKind& kind : plan.mesh.device_kinds) {
    absl::StrAppend(text, "  ", Shown(kind.name), ": ", WordOf(kind.memory_kind), " ", ByteText(kind.memory_bytes),
                    ", usable ", ByteText(kind.usable_bytes), ", communicator ", ByteText(kind.communicator_bytes),
                    " a rank");
    if (kind.bandwidth > 0) absl::StrAppend(text, ", memory ", PerSecondText(kind.bandwidth, "B/s"));
    if (kind.bf16_rate > 0) absl::StrAppend(text, ", bf16 ", PerSecondText(kind.bf16_rate, "FLOP/s"));
    if (kind.compute_capability > 0) {
      absl::StrAppend(text, ", compute capability ", kind.compute_capability / 10, ".", kind.compute_capability % 10);
    }
    if (kind.shared_memory > 0) absl::StrAppend(text, ", ", ByteText(kind.shared_memory), " a block");
    if (kind.ecc != Ecc::kAny) absl::StrAppend(text, ", ECC ", WordOf(kind.ecc));
    if (kind.peer_access) absl::StrAppend(text, ", peer access");
    if (kind.fabric) absl::StrAppend(text, ", one fabric an island");
    absl::StrAppend(text, "\n");
  }
}

// Ranks that follow each other on slots that do, or on one slot.
struct Run {
  uint32_t rank = 0;
  uint32_t slot = 0;
  uint32_t ranks = 1;
  bool one_slot = false;
};

void AddRank(uint32_t rank, uint32_t slot, std::vector<Run>* runs) {
  if (!runs->empty()) {
    Run& last = runs->back();
    const bool follows = rank == last.rank + last.ranks;
    const bool same_slot = slot == last.slot && (last.one_slot || last.ranks == 1);
    const bool next_slot = slot == last.slot + last.ranks && !last.one_slot;
    if (follows && (same_slot || next_slot)) {
      last.one_slot = same_slot;
      ++last.ranks;
      return;
    }
  }
  runs->push_back({rank, slot});
}

std::string RunText(const Run& run) {
  const uint32_t slots = run.one_slot ? 1 : run.ranks;
  return absl::StrCat(run.ranks == 1 ? "rank " : "ranks ", NumbersText({{run.rank, run.rank + run.ranks}}), " on ",
                      slots == 1 ? "slot " : "slots ", NumbersText({{run.slot, run.slot + slots}}));
}

void AppendNodes(const Plan& plan, std::string* text) {
  std::map<uint32_t, std::vector<Run>> runs_on;
  for (uint32_t rank = 0; rank < plan.mesh.rank_slots.size(); ++rank) {
    const RankSlot& slot = plan.mesh.rank_slots[rank];
    AddRank(rank, slot.slot, &runs_on[slot.node]);
  }
  const std::vector<Node>& nodes = plan.mesh.nodes;
  for (uint32_t i = 0; i < nodes.size() && i < kMostRows; ++i) {
    const Node& node = nodes[i];
    const DeviceKind* kind = At(plan.mesh.device_kinds, node.device_kind);
    std::vector<std::string> parts;
    const std::vector<Run>& runs = runs_on[i];
    for (size_t run = 0; run < runs.size() && run < kMostIntervals; ++run) parts.push_back(RunText(runs[run]));
    if (runs.size() > kMostIntervals) parts.push_back(absl::StrCat(runs.size() - kMostIntervals, " more runs"));
    if (parts.empty()) parts.emplace_back("no rank");
    if (!node.identity.empty()) parts.push_back(absl::StrCat("devices ", Shown(absl::StrJoin(node.identity, " "))));
    absl::StrAppend(text, "  node ", Shown(node.name), ", ", node.slots, " x ",
                    kind == nullptr ? "unknown kind" : Shown(kind->name), ", island ", node.island, ": ",
                    absl::StrJoin(parts, ", "), "\n");
  }
  if (nodes.size() > kMostRows) absl::StrAppend(text, "  ", MoreText(nodes.size() - kMostRows, "nodes"));
}

void AppendStages(const Plan& plan, std::string* text) {
  if (plan.degrees.pp < 2) return;
  std::vector<std::string> stages;
  std::vector<std::string> ends;
  for (uint32_t pp = 0; pp < plan.stage_ends.size() && pp < kMostRows; ++pp) {
    stages.push_back(absl::StrCat(pp, ": ", StageText(StageOf(plan, pp))));
    if (pp + 1 < plan.stage_ends.size() && plan.stage_ends[pp] > 0)
      ends.push_back(absl::StrCat(plan.stage_ends[pp] - 1));
  }
  absl::StrAppend(text, "stages ", absl::StrJoin(stages, "; "), "\n");
  absl::StrAppend(text, "hand-offs: rank r sends its tokens to rank r + ", uint64_t{plan.degrees.tp} * plan.degrees.ep,
                  " of the next stage after ", ends.size() == 1 ? "layer " : "layers ", absl::StrJoin(ends, ","), "\n");
}

}  // namespace

Interval StageOf(const Plan& plan, uint32_t pp) {
  const uint32_t* last = At(plan.stage_ends, pp);
  if (last == nullptr) return {};
  const uint32_t first = pp == 0 ? 0 : plan.stage_ends[pp - 1];
  return first < *last ? Interval{first, *last} : Interval{};
}

std::string StageText(const Interval& stage) { return Count(stage) == 0 ? "no layers" : LayersText({stage}); }

std::string PlaceText(const Plan& plan, uint32_t rank) {
  const RankSlot* slot = At(plan.mesh.rank_slots, rank);
  const Node* node = slot == nullptr ? nullptr : At(plan.mesh.nodes, slot->node);
  if (node == nullptr) return "nowhere";
  return absl::StrCat("node ", Shown(node->name), " slot ", slot->slot);
}

void AppendMesh(const Plan& plan, uint32_t world, std::string* text) {
  const Mesh& mesh = plan.mesh;
  uint64_t slots = 0;
  for (const Node& node : mesh.nodes) slots += node.slots;
  absl::StrAppend(text, "transport ", WordOf(mesh.transport));
  if (!mesh.transport_version_min.empty()) absl::StrAppend(text, " from ", Shown(mesh.transport_version_min));
  if (!mesh.transport_version_max.empty()) absl::StrAppend(text, " to ", Shown(mesh.transport_version_max));
  if (mesh.capturable) absl::StrAppend(text, ", capturable");
  absl::StrAppend(text, "; ", CountText(mesh.nodes.size(), "node"), " with ", CountText(slots, "slot"));
  if (!mesh.emulated && slots > world) absl::StrAppend(text, ", ", slots - world, " idle");
  AppendLinks(mesh, text);
  absl::StrAppend(text, "\n");
  AppendKinds(plan, text);
  AppendNodes(plan, text);
  AppendStages(plan, text);
}

}  // namespace meshseal
