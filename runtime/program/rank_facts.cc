#include "runtime/program/rank_facts.h"

#include <cstddef>

namespace meshseal::runtime {

std::vector<uint32_t> LocalExperts(const LayerClass& layer_class, uint32_t ep) {
  std::vector<uint32_t> experts;  // local numbers ascend with the expert, those of copies follow in the list's order
  for (uint32_t expert = 0; expert < layer_class.expert_shards.size(); ++expert) {
    if (layer_class.expert_shards[expert].owner == ep) experts.push_back(expert);
  }
  for (const ExpertCopy& copy : layer_class.expert_copies) {
    if (copy.owner == ep) experts.push_back(copy.expert);
  }
  return experts;
}

std::vector<ExpertPlace> ExpertPlaces(const LayerClass& layer_class, uint32_t ep) {
  std::vector<ExpertPlace> places(layer_class.expert_shards.size());
  for (size_t expert = 0; expert < places.size(); ++expert) {
    const ExpertShard& shard = layer_class.expert_shards[expert];
    if (shard.owner == ep) places[expert].local = static_cast<int32_t>(shard.local);
  }
  for (const ExpertCopy& further : layer_class.expert_copies) {
    ExpertPlace& place = places[further.expert];
    const uint32_t copy = place.copies++;
    if (further.owner != ep) continue;
    place.local = static_cast<int32_t>(further.local);
    place.copy = copy;
  }
  return places;
}

ColumnRange ColumnsOf(const LayerClass& layer_class, uint32_t tp) {
  const auto end_of = [&](uint32_t coordinate) {
    return layer_class.segment_ends[layer_class.tp_segment_ends[coordinate] - 1];
  };
  return {tp == 0 ? 0 : end_of(tp - 1), end_of(tp)};
}

ColumnRange SharedColumnsOf(const LayerClass& layer_class, const Degrees& degrees, const Coordinate& at) {
  const SharedExpert& shared = layer_class.shared_expert;
  if (shared.width == 0) return {};
  const bool split = shared.placement == SharedPlacement::kSplit;
  if (!split && at.ep != 0) return {};
  const size_t part = split ? size_t{at.tp} * degrees.ep + at.ep : at.tp;
  return {part == 0 ? 0 : shared.part_ends[part - 1], shared.part_ends[part]};
}

std::vector<uint32_t> SegmentsIn(const std::vector<uint32_t>& segment_ends, const ColumnRange& columns) {
  std::vector<uint32_t> ends;
  for (const uint32_t end : segment_ends) {
    if (columns.begin < end && end <= columns.end) ends.push_back(end - columns.begin);
  }
  return ends;
}

StepKind RouteOf(const LayerClass& layer_class) {
  for (const Step& step : layer_class.programs.front().steps) {
    if (FindStep(step.kind)->outputs.front() == ValueOrder::kRouting) return step.kind;
  }
  return StepKind::kInvalid;  // the meaning gate refuses it
}

LayerRange LayersOfStage(const Plan& plan, uint32_t pp) {
  return {pp == 0 ? 0 : plan.stage_ends[pp - 1], plan.stage_ends[pp]};
}

uint32_t RanksOfScope(const Plan& plan) {
  const auto world = static_cast<uint32_t>(plan.mesh.rank_slots.size());
  return plan.failure_scope == FailureScope::kReplica ? world / plan.degrees.dp : world;
}

std::optional<uint32_t> ClassOfLayer(const Plan& plan, uint32_t layer) {
  for (uint32_t i = 0; i < plan.layer_classes.size(); ++i) {
    for (const LayerRange& range : plan.layer_classes[i].layers) {
      if (range.first <= layer && layer < range.last) return i;
    }
  }
  return std::nullopt;
}

}  // namespace meshseal::runtime
