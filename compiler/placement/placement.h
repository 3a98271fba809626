// Placement: who owns what. Ranks to slots, layers to pipeline stages, experts to ep coordinates, columns of the
// intermediate axis and of the shared expert to ranks of the expert group. Only Place makes one.
#ifndef MESHSEAL_COMPILER_PLACEMENT_PLACEMENT_H_
#define MESHSEAL_COMPILER_PLACEMENT_PLACEMENT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compiler/check/checked_model.h"
#include "compiler/placement/expert_owners.h"
#include "schema/plan.h"

namespace meshseal::compiler {

// `total` things over `parts`, in order and as equal as possible, larger parts first: the ends of the parts.
std::vector<uint32_t> EvenEnds(uint32_t total, uint32_t parts);
// The same, in whole units; the last unit may be cut short by the total.
std::vector<uint32_t> EvenEnds(uint32_t total, uint32_t parts, uint32_t unit);

// Layers of one group of the manifest that have the same owners: all of it, or those of which a profile says the same.
struct ClassPlacement {
  size_t group = 0;  // index into Manifest::groups
  std::vector<LayerRange> layers;

  ExpertOwners owners;
  std::vector<uint32_t> expert_counts;  // per ep coordinate, copies included
  LoadBalance load;
  std::vector<uint32_t> segment_ends;     // columns
  std::vector<uint32_t> tp_segment_ends;  // per tp coordinate

  std::vector<uint32_t> shared_segment_ends;  // columns of the shared expert; empty without one
  std::vector<uint32_t> shared_ends;          // and per part
  bool shared_split = false;  // parts lie on all ranks of the group, tp-major; else on ep 0, one a tp rank

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
  const std::vector<ClassPlacement>& classes() const { return classes_; }  // by first layer

 private:
  friend Placement Place(const CheckedModel& checked);
  Placement() = default;

  Degrees degrees_;
  std::vector<RankSlot> rank_slots_;
  std::vector<uint32_t> stage_ends_;
  std::vector<ClassPlacement> classes_;
};

// Experts as expert_owners.h places them; columns in whole cut units, as equal as possible; an exact reduction's
// canonical segments first, of which each rank that has some gets the same number. Ranks fill slots in node order, or
// as the mesh assigns them; on an emulated mesh, neighbouring ranks share a slot.
Placement Place(const CheckedModel& checked);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_PLACEMENT_PLACEMENT_H_
