#include "compiler/placement/placement.h"

#include "schema/mesh_view.h"

namespace meshseal::compiler {
namespace {

// One slot after the other, node by node.
std::vector<RankSlot> AllSlots(const MeshSpec& mesh) {
  std::vector<RankSlot> slots;
  for (uint32_t node = 0; node < mesh.nodes.size(); ++node) {
    for (uint32_t slot = 0; slot < mesh.nodes[node].slots.value; ++slot) slots.push_back({node, slot});
  }
  return slots;
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

uint32_t Placement::ExpertsOf(uint32_t ep) const {
  uint32_t count = 0;
  for (const ExpertShard& shard : expert_shards_) count += shard.owner == ep ? 1 : 0;
  return count;
}

uint32_t Placement::ColumnsOf(uint32_t tp) const {
  const uint32_t begin = tp == 0 ? 0 : segment_ends_[tp_segment_ends_[tp - 1] - 1];
  return segment_ends_[tp_segment_ends_[tp] - 1] - begin;
}

Placement Place(const CheckedModel& checked) {
  Placement placement;
  placement.degrees_ = checked.degrees();
  const Degrees& degrees = placement.degrees_;

  const std::vector<RankSlot> slots = AllSlots(checked.mesh());
  const uint64_t world = *WorldOf(degrees);
  for (uint64_t rank = 0; rank < world; ++rank) {
    placement.rank_slots_.push_back(checked.mesh().emulated.value ? slots[rank * slots.size() / world] : slots[rank]);
  }
  placement.stage_ends_ = StageEnds(checked, degrees.pp);

  const std::vector<uint32_t> expert_ends = EvenEnds(static_cast<uint32_t>(checked.model().experts.value), degrees.ep);
  uint32_t begin = 0;
  for (uint32_t owner = 0; owner < degrees.ep; ++owner) {
    for (uint32_t expert = begin; expert < expert_ends[owner]; ++expert) {
      placement.expert_shards_.push_back({owner, expert - begin});
    }
    begin = expert_ends[owner];
  }

  // One canonical segment per tp rank: no more are needed while nothing asks for the same bits across tp degrees.
  placement.segment_ends_ = EvenEnds(static_cast<uint32_t>(checked.model().intermediate_size.value), degrees.tp);
  placement.tp_segment_ends_ = EvenEnds(degrees.tp, degrees.tp);
  return placement;
}

}  // namespace meshseal::compiler
