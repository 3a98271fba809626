// Placement: who owns what. Ranks to slots, layers to pipeline stages, experts to ep coordinates, columns of the
// intermediate axis to tp coordinates. Only Place makes one.
#ifndef MESHSEAL_COMPILER_PLACEMENT_PLACEMENT_H_
#define MESHSEAL_COMPILER_PLACEMENT_PLACEMENT_H_

#include <cstdint>
#include <vector>

#include "compiler/check/checked_model.h"
#include "schema/plan.h"

namespace meshseal::compiler {

// `total` things over `parts`, in order and as equal as possible, larger parts first: the ends of the parts.
std::vector<uint32_t> EvenEnds(uint32_t total, uint32_t parts);
// The same, in whole units; the last unit may be cut short by the total.
std::vector<uint32_t> EvenEnds(uint32_t total, uint32_t parts, uint32_t unit);

// The owners of the layers of one LayerGroup.
struct GroupPlacement {
  std::vector<ExpertShard> expert_shards;  // per expert; without redundant copies
  std::vector<uint32_t> expert_counts;     // per ep coordinate, redundant copies included
  std::vector<uint32_t> segment_ends;      // columns
  std::vector<uint32_t> tp_segment_ends;   // per tp coordinate

  std::vector<uint32_t> shared_ends;  // columns of the shared expert, per part; empty without one
  bool shared_split = false;          // parts lie on all ranks of the group, tp-major; else on ep 0, one a tp rank

  uint32_t ColumnsOf(uint32_t tp) const;
  uint32_t SharedColumnsOf(uint32_t tp, uint32_t ep) const;
};

class Placement {
 public:
  const Degrees& degrees() const { return degrees_; }
  const std::vector<RankSlot>& rank_slots() const { return rank_slots_; }  // per world rank
  const std::vector<uint32_t>& stage_ends() const { return stage_ends_; }  // per pp coordinate
  // How many of the layers belong to pipeline stage `pp`.
  uint64_t LayersOf(const std::vector<LayerRange>& layers, uint32_t pp) const;
  const std::vector<GroupPlacement>& groups() const { return groups_; }  // per group of the manifest

 private:
  friend Placement Place(const CheckedModel& checked);
  Placement() = default;

  Degrees degrees_;
  std::vector<RankSlot> rank_slots_;
  std::vector<uint32_t> stage_ends_;
  std::vector<GroupPlacement> groups_;
};

// Experts contiguous or round-robin: the first (experts mod ep) owners have one more. Contiguous columns likewise.
// Ranks fill slots in node order, or as the mesh assigns them; on an emulated mesh, neighbouring ranks share a slot.
Placement Place(const CheckedModel& checked);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_PLACEMENT_PLACEMENT_H_
