#include "compiler/placement/placement.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "compiler/check/exact_sum.h"
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
  std::map<std::string, uint32_t> nodes;
  for (uint32_t node = 0; node < mesh.nodes.size(); ++node) nodes.emplace(mesh.nodes[node].name.value, node);
  std::vector<RankSlot> ranks;
  for (const AssignSpec& row : mesh.assign) {
    ranks.push_back({nodes.at(row.node.value), static_cast<uint32_t>(row.slot.value)});
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

uint32_t ClassPlacement::ColumnsOf(uint32_t tp) const {
  const uint32_t begin = tp == 0 ? 0 : segment_ends[tp_segment_ends[tp - 1] - 1];
  return segment_ends[tp_segment_ends[tp] - 1] - begin;
}

uint32_t ClassPlacement::SharedColumnsOf(uint32_t tp, uint32_t ep) const {
  if (shared_ends.empty() || (!shared_split && ep != 0)) return 0;
  const size_t part = shared_split ? size_t{tp} * expert_counts.size() + ep : tp;
  return shared_ends[part] - (part == 0 ? 0 : shared_ends[part - 1]);
}

namespace {

// What all layers of a group have in common: the cuts.
ClassPlacement CutGroup(size_t index, const CheckedModel& checked) {
  const LayerGroup& group = checked.model().groups[index];
  const MoeSpec& moe = group.moe;
  const Deployment& deployment = checked.deployment();
  const Degrees degrees = checked.degrees();
  ClassPlacement cut;
  cut.group = index;
  cut.layers = group.layers;
  const auto ends_of = [&](ShapeAxis axis, uint64_t width, uint32_t parts) {
    const uint64_t unit = CutUnit(GrainsOf(moe, axis, deployment.down_basis));
    return EvenEnds(static_cast<uint32_t>(width), parts, static_cast<uint32_t>(std::min(unit, width)));
  };
  const bool exact = deployment.reduction.value == Reduction::kExact;
  const uint32_t segments = exact ? static_cast<uint32_t>(deployment.exact_segments.value) : degrees.tp;
  cut.segment_ends = ends_of(ShapeAxis::kIntermediate, moe.intermediate_size.value, segments);
  cut.tp_segment_ends = EvenEnds(segments, degrees.tp);
  if (moe.shared_expert.has_value()) {
    cut.shared_split = deployment.shared_expert->value == SharedPlacement::kSplit;
    const uint32_t parts = cut.shared_split ? degrees.tp * degrees.ep : degrees.tp;
    const uint32_t shared = exact ? static_cast<uint32_t>(SharedSegments(deployment).value) : parts;
    cut.shared_segment_ends = ends_of(ShapeAxis::kShared, moe.shared_expert->width.value, shared);
    for (const uint32_t end : EvenEnds(shared, parts)) cut.shared_ends.push_back(cut.shared_segment_ends[end - 1]);
  }
  return cut;
}

ExpertOwners OwnersOf(ExpertPlacement placement, const std::vector<uint64_t>& slots, uint32_t experts, uint32_t copies,
                      uint32_t ep) {
  switch (placement) {
    case ExpertPlacement::kRoundRobin:
      return RoundRobinOwners(experts, copies, ep);
    case ExpertPlacement::kBalanced:
      return BalancedOwners(slots, copies, ep);
    case ExpertPlacement::kContiguous:
    case ExpertPlacement::kInvalid:
      break;
  }
  return ContiguousOwners(experts, copies, ep);
}

// The group's layers by the load that was measured; all in one where nothing was.
std::map<std::vector<uint64_t>, std::vector<LayerRange>> LayersByLoad(const LayerGroup& group,
                                                                      const CheckedModel& checked) {
  std::map<std::vector<uint64_t>, std::vector<LayerRange>> layers;
  if (checked.deployment().placement.value != ExpertPlacement::kBalanced) {
    layers[{}] = group.layers;
    return layers;
  }
  for (const LayerRange& range : group.layers) {
    for (uint32_t layer = range.first; layer < range.last; ++layer) {
      std::vector<LayerRange>& same = layers[checked.profile()->profile.slots.at(layer)];
      if (!same.empty() && same.back().last == layer) {
        ++same.back().last;
      } else {
        same.push_back({layer, layer + 1});
      }
    }
  }
  return layers;
}

// The slots of the busiest of `ep` equal parts of the experts.
uint64_t BusiestContiguous(const std::vector<uint64_t>& slots, uint32_t ep) {
  uint64_t busiest = 0;
  size_t expert = 0;
  for (const uint32_t end : EvenEnds(static_cast<uint32_t>(slots.size()), ep)) {
    uint64_t part = 0;
    for (; expert < end; ++expert) part += slots[expert];
    busiest = std::max(busiest, part);
  }
  return busiest;
}

void PlaceGroup(size_t index, const CheckedModel& checked, std::vector<ClassPlacement>& classes) {
  const LayerGroup& group = checked.model().groups[index];
  const auto experts = static_cast<uint32_t>(group.moe.experts.value);
  const auto copies = static_cast<uint32_t>(checked.deployment().redundant_experts.value);
  const uint32_t ep = checked.degrees().ep;
  const ClassPlacement cut = CutGroup(index, checked);
  for (const auto& [slots, layers] : LayersByLoad(group, checked)) {
    ClassPlacement placed = cut;
    placed.layers = layers;
    placed.owners = OwnersOf(checked.deployment().placement.value, slots, experts, copies, ep);
    placed.expert_counts = ExpertsPerOwner(placed.owners, ep);
    if (!slots.empty()) {
      placed.load = {slots, BusiestContiguous(slots, ep), BusiestLoad(placed.owners, slots, ep)};
    }
    classes.push_back(std::move(placed));
  }
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
  for (size_t group = 0; group < checked.model().groups.size(); ++group) {
    PlaceGroup(group, checked, placement.classes_);
  }
  std::sort(placement.classes_.begin(), placement.classes_.end(), [](const ClassPlacement& a, const ClassPlacement& b) {
    return a.layers.front().first < b.layers.front().first;
  });
  return placement;
}

}  // namespace meshseal::compiler
