// What a coordinate of the mesh owns: its experts, its columns, its layers. All read from the plan's rules.
#ifndef MESHSEAL_RUNTIME_PROGRAM_RANK_FACTS_H_
#define MESHSEAL_RUNTIME_PROGRAM_RANK_FACTS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "schema/plan.h"

namespace meshseal::runtime {

// Columns [begin, end) of the intermediate axis.
struct ColumnRange {
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t size() const { return end - begin; }
};

// The experts that coordinate `ep` owns, by local number: global expert ids.
std::vector<uint32_t> LocalExperts(const LayerClass& layer_class, uint32_t ep);

// The columns that coordinate `tp` owns.
ColumnRange ColumnsOf(const LayerClass& layer_class, uint32_t tp);

// The layers of pipeline stage `pp`.
LayerRange LayersOfStage(const Plan& plan, uint32_t pp);

// The layer class of a layer; nothing for a layer without experts.
std::optional<uint32_t> ClassOfLayer(const Plan& plan, uint32_t layer);

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_PROGRAM_RANK_FACTS_H_
