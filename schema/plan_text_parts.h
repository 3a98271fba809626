// The parts of a listing, each in a file of its own; internal to plan_text. All print a refused plan as it stands.
#ifndef MESHSEAL_SCHEMA_PLAN_TEXT_PARTS_H_
#define MESHSEAL_SCHEMA_PLAN_TEXT_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schema/intervals.h"
#include "schema/mesh_view.h"
#include "schema/plan.h"

namespace meshseal {

// Longest tables that are printed whole, in rows.
inline constexpr size_t kMostRows = 96;
// And kinds of layers, or of owners.
inline constexpr size_t kMostKinds = 8;

std::string MoreText(size_t more, const char* what);

// The range of layers of a pipeline stage; [0,0) for none.
Interval StageOf(const Plan& plan, uint32_t pp);
std::string StageText(const Interval& stage);

// Where a rank runs: "node n0 slot 3".
std::string PlaceText(const Plan& plan, uint32_t rank);

// plan_text_mesh.cc: devices, nodes with their ranks, stages and hand-offs.
void AppendMesh(const Plan& plan, uint32_t world, std::string* text);

// plan_text_layers.cc: what is computed in `classes`, and their tensors.
std::string LayoutText(const TensorClass& tensor);  // "stacked, interleaved"
std::string ScaleText(const SideTensor& side);      // "blocks of 128 x 128, multiply"
void AppendLayerClasses(const Plan& plan, const std::vector<const LayerClass*>& classes, std::string* text);

// plan_text_owners.cc: which rank holds what, once for all of `classes` that are owned alike.
void AppendOwners(const Plan& plan, const std::vector<const LayerClass*>& classes, std::string* text);

// What the rank at `at` holds of `layers` of a class, tensor by tensor.
void AppendHoldings(const Plan& plan, const LayerClass& c, const Coordinate& at, const Intervals& layers,
                    std::optional<uint32_t> layer, std::string* text);

// plan_text_memory.cc
void AppendMemory(const Plan& plan, std::string* text);
void AppendRankMemory(const Plan& plan, uint32_t rank, std::string* text);
void AppendPrices(const Plan& plan, std::string* text);

// plan_text_program.cc: the steps of a program; those of one rank tell its expert group and arena.
void AppendPrograms(const Plan& plan, const std::vector<const LayerClass*>& classes, std::string* text);
void AppendRankPrograms(const Plan& plan, const LayerClass& c, uint32_t rank, const Intervals& layers,
                        std::string* text);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_PLAN_TEXT_PARTS_H_
