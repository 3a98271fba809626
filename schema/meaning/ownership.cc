// Rules on who owns which experts and which columns.
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schema/meaning/rules.h"
#include "schema/meaning/shape_facts.h"

namespace meshseal::meaning {

std::vector<uint32_t> ExpertsPerOwner(const LayerClass& layer_class, uint32_t ep) {
  std::vector<uint32_t> counts(ep, 0);
  for (const ExpertShard& shard : layer_class.expert_shards) ++counts[shard.owner];
  return counts;
}

std::vector<uint32_t> ColumnsPerTp(const LayerClass& layer_class) {
  std::vector<uint32_t> columns;
  uint32_t begin = 0;
  for (const uint32_t segment_end : layer_class.tp_segment_ends) {
    const uint32_t end = layer_class.segment_ends[segment_end - 1];
    columns.push_back(end - begin);
    begin = end;
  }
  return columns;
}

Fault ExpertsAreOwnedOnce(const Plan& plan, const SealFacts&) {
  for (const LayerClass& c : plan.layer_classes) {
    if (c.expert_shards.size() != c.experts) {
      return absl::StrCat(c.expert_shards.size(), " experts have an owner, the layers have ", c.experts);
    }
    std::vector<uint32_t> next(plan.degrees.ep, 0);
    for (size_t expert = 0; expert < c.expert_shards.size(); ++expert) {
      const ExpertShard& shard = c.expert_shards[expert];
      if (shard.owner >= plan.degrees.ep) {
        return absl::StrCat("expert ", expert, " is owned by ep ", shard.owner, ", ep is ", plan.degrees.ep);
      }
      if (shard.local != next[shard.owner]) {
        return absl::StrCat("expert ", expert, " is number ", shard.local, " of ep ", shard.owner, ", the next one is ",
                            next[shard.owner]);
      }
      ++next[shard.owner];
    }
    for (size_t owner = 0; owner < next.size(); ++owner) {
      if (next[owner] == 0) return absl::StrCat("ep ", owner, " owns no expert");
    }
  }
  return std::nullopt;
}

Fault ColumnsAreOwnedOnce(const Plan& plan, const SealFacts&) {
  for (const LayerClass& c : plan.layer_classes) {
    uint32_t end = 0;
    for (const uint32_t segment_end : c.segment_ends) {
      if (segment_end <= end) return absl::StrCat("a column segment ends at ", segment_end, " and starts at ", end);
      end = segment_end;
    }
    if (end != c.intermediate) {
      return absl::StrCat("the column segments end at ", end, ", the intermediate size is ", c.intermediate);
    }
    if (c.tp_segment_ends.size() != plan.degrees.tp) {
      return absl::StrCat(c.tp_segment_ends.size(), " tp ranks own columns, tp is ", plan.degrees.tp);
    }
    uint32_t owned = 0;
    for (const uint32_t segment_end : c.tp_segment_ends) {
      if (segment_end <= owned) return std::string("a tp rank owns no column segment");
      owned = segment_end;
    }
    if (owned != c.segment_ends.size()) {
      return absl::StrCat("tp ranks own ", owned, " column segments, there are ", c.segment_ends.size());
    }
  }
  return std::nullopt;
}

}  // namespace meshseal::meaning
