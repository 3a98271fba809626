#include "runtime/program/rank_facts.h"

namespace meshseal::runtime {

std::vector<uint32_t> LocalExperts(const LayerClass& layer_class, uint32_t ep) {
  std::vector<uint32_t> experts;  // local numbers ascend with the expert, so this is their order
  for (uint32_t expert = 0; expert < layer_class.expert_shards.size(); ++expert) {
    if (layer_class.expert_shards[expert].owner == ep) experts.push_back(expert);
  }
  return experts;
}

ColumnRange ColumnsOf(const LayerClass& layer_class, uint32_t tp) {
  const auto end_of = [&](uint32_t coordinate) {
    return layer_class.segment_ends[layer_class.tp_segment_ends[coordinate] - 1];
  };
  return {tp == 0 ? 0 : end_of(tp - 1), end_of(tp)};
}

LayerRange LayersOfStage(const Plan& plan, uint32_t pp) {
  return {pp == 0 ? 0 : plan.stage_ends[pp - 1], plan.stage_ends[pp]};
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
