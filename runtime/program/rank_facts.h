// What a coordinate of the mesh owns: its experts, its columns, its layers. All read from the plan's rules.
#ifndef MESHSEAL_RUNTIME_PROGRAM_RANK_FACTS_H_
#define MESHSEAL_RUNTIME_PROGRAM_RANK_FACTS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/program/expert_place.h"
#include "schema/mesh_view.h"
#include "schema/plan.h"
#include "schema/step.h"

namespace meshseal::runtime {

// Columns [begin, end) of the intermediate axis, or of the shared expert's width.
struct ColumnRange {
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t size() const { return end - begin; }
};

// The experts that coordinate `ep` holds, copies included, by local number: global expert ids.
std::vector<uint32_t> LocalExperts(const LayerClass& layer_class, uint32_t ep);

// Every expert of the layers, as coordinate `ep` sees it.
std::vector<ExpertPlace> ExpertPlaces(const LayerClass& layer_class, uint32_t ep);

// The columns that coordinate `tp` owns.
ColumnRange ColumnsOf(const LayerClass& layer_class, uint32_t tp);

// The columns of the shared expert at a coordinate; none where there is no shared expert.
ColumnRange SharedColumnsOf(const LayerClass& layer_class, const Degrees& degrees, const Coordinate& at);

// The segments of a rank's columns, which are whole ones: their ends, counted from the first of its columns.
std::vector<uint32_t> SegmentsIn(const std::vector<uint32_t>& segment_ends, const ColumnRange& columns);

// Whether experts of this activation have a gate matrix.
constexpr bool HasGate(ActivationKind kind) { return kind != ActivationKind::kRelu2; }

// How the layers' tokens find their experts: kRoute, kRouteByTable or kRouteGiven.
StepKind RouteOf(const LayerClass& layer_class);

// The layers of pipeline stage `pp`.
LayerRange LayersOfStage(const Plan& plan, uint32_t pp);

// How many ranks in a row fail together: all, or those of a replica.
uint32_t RanksOfScope(const Plan& plan);

// The layer class of a layer; nothing for a layer without experts.
std::optional<uint32_t> ClassOfLayer(const Plan& plan, uint32_t layer);

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_PROGRAM_RANK_FACTS_H_
