#include "compiler/placement/placement.h"

#include <algorithm>

#include "compiler/check/grain.h"
#include "schema/mesh_view.h"

namespace meshseal::compiler {
namespace {

// One slot after the other, node by node; on an emulated mesh with more ranks than slots, neighbours share one.
std::vector<RankSlot> FillSlots(const MeshSpec& mesh, uint64_t world) {
  std::vector<RankSlot> slots;
  for (uint32_t node = 0; node < mesh.nodes.size(); ++node) {
    for (uint32_t slot = 0; slot < mesh.nodes[node].slots.value; ++slot) slots.push_back({node, slot});
  }
  std::vector<RankSlot> ranks;
  for (uint64_t rank = 0; rank < world; ++rank) {
    ranks.push_back(mesh.emulated.value ? slots[rank * slots.size() / world] : slots[rank]);
  }
  return ranks;
}

std::vector<RankSlot> AssignedSlots(const MeshSpec& mesh) {
  std::vector<RankSlot> ranks;
  for (const AssignSpec& row : mesh.assign) {
    uint32_t node = 0;
    while (mesh.nodes[node].name.value != row.node.value) ++node;
    ranks.push_back({node, static_cast<uint32_t>(row.slot.value)});
  }
  return ranks;
}

std::vector<uint32_t> StageEnds(const CheckedModel& checked, uint32_t pp) {
  if (!checked.deployment().stages.has_value()) {
    return EvenEnds(static_cast<uint32_t>(checked.model().layers.value), pp);
  }
  std::vector<uint32_t> ends;
  uint64_t end = 0;
  for (const uint64_t layers : checked.deployment().stages->value) {
    end += layers;
    ends.push_back(static_cast<uint32_t>(end));
  }
  return ends;
}

}  // namespace

std::vector<uint32_t> EvenEnds(uint32_t total, uint32_t parts) {
  std::vector<uint32_t> ends;
  ends.reserve(parts);
  uint32_t end = 0;
  for (uint32_t part = 0; part < parts; ++part) {
    end += total / parts + (part < total % parts ? 1 : 0);
    ends.push_back(end);
  }
  return ends;
}

std::vector<uint32_t> EvenEnds(uint32_t total, uint32_t parts, uint32_t unit) {
  std::vector<uint32_t> ends = EvenEnds((total + unit - 1) / unit, parts);
  for (uint32_t& end : ends) end = std::min(end * unit, total);
  return ends;
}

uint32_t GroupPlacement::ColumnsOf(uint32_t tp) const {
  const uint32_t begin = tp == 0 ? 0 : segment_ends[tp_segment_ends[tp - 1] - 1];
  return segment_ends[tp_segment_ends[tp] - 1] - begin;
}

uint32_t GroupPlacement::SharedColumnsOf(uint32_t tp, uint32_t ep) const {
  if (shared_ends.empty() || (!shared_split && ep != 0)) return 0;
  const size_t part = shared_split ? size_t{tp} * expert_counts.size() + ep : tp;
  return shared_ends[part] - (part == 0 ? 0 : shared_ends[part - 1]);
}

namespace {

std::vector<ExpertShard> Contiguous(uint32_t experts, uint32_t ep) {
  const std::vector<uint32_t> ends = EvenEnds(experts, ep);
  std::vector<ExpertShard> shards;
  uint32_t begin = 0;
  for (uint32_t owner = 0; owner < ep; ++owner) {
    for (uint32_t expert = begin; expert < ends[owner]; ++expert) shards.push_back({owner, expert - begin});
    begin = ends[owner];
  }
  return shards;
}

// Neighbours go to neighbouring owners; the first (experts mod ep) owners have one more, as above.
std::vector<ExpertShard> RoundRobin(uint32_t experts, uint32_t ep) {
  std::vector<ExpertShard> shards;
  for (uint32_t expert = 0; expert < experts; ++expert) shards.push_back({expert % ep, expert / ep});
  return shards;
}

GroupPlacement PlaceGroup(const MoeSpec& moe, const Deployment& deployment, const Degrees& degrees) {
  GroupPlacement group;
  const auto experts = static_cast<uint32_t>(moe.experts.value);
  group.expert_shards = deployment.placement.value == ExpertPlacement::kRoundRobin ? RoundRobin(experts, degrees.ep)
                                                                                   : Contiguous(experts, degrees.ep);
  uint32_t begin = 0;
  const auto copies = static_cast<uint32_t>(deployment.redundant_experts.value);
  for (const uint32_t end : EvenEnds(experts + copies, degrees.ep)) {
    group.expert_counts.push_back(end - begin);
    begin = end;
  }
  // One canonical segment per tp rank: no more are needed while nothing asks for the same bits across tp degrees.
  const auto ends_of = [&](ShapeAxis axis, uint64_t width, uint32_t parts) {
    const uint64_t unit = CutUnit(GrainsOf(moe, axis, deployment.down_basis));
    return EvenEnds(static_cast<uint32_t>(width), parts, static_cast<uint32_t>(std::min(unit, width)));
  };
  group.segment_ends = ends_of(ShapeAxis::kIntermediate, moe.intermediate_size.value, degrees.tp);
  group.tp_segment_ends = EvenEnds(degrees.tp, degrees.tp);
  if (moe.shared_expert.has_value()) {
    group.shared_split = deployment.shared_expert->value == SharedPlacement::kSplit;
    group.shared_ends = ends_of(ShapeAxis::kShared, moe.shared_expert->width.value,
                                group.shared_split ? degrees.tp * degrees.ep : degrees.tp);
  }
  return group;
}

}  // namespace

uint64_t Placement::LayersOf(const std::vector<LayerRange>& layers, uint32_t pp) const {
  const uint32_t begin = pp == 0 ? 0 : stage_ends_[pp - 1];
  uint64_t count = 0;
  for (const LayerRange& range : layers) {
    const uint32_t first = std::max(range.first, begin);
    const uint32_t last = std::min(range.last, stage_ends_[pp]);
    count += first < last ? last - first : 0;
  }
  return count;
}

Placement Place(const CheckedModel& checked) {
  Placement placement;
  placement.degrees_ = checked.degrees();
  const Degrees& degrees = placement.degrees_;
  const MeshSpec& mesh = checked.mesh();
  placement.rank_slots_ = mesh.assign.empty() ? FillSlots(mesh, *WorldOf(degrees)) : AssignedSlots(mesh);
  placement.stage_ends_ = StageEnds(checked, degrees.pp);
  for (const LayerGroup& group : checked.model().groups) {
    placement.groups_.push_back(PlaceGroup(group.moe, checked.deployment(), degrees));
  }
  return placement;
}

}  // namespace meshseal::compiler
