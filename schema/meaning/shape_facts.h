// What a layer class says between its lines: the axes of its roles, its programs' shape, and what follows from owners
// and cuts for the rank at (tp, ep); internal to the meaning gate.
#ifndef MESHSEAL_SCHEMA_MEANING_SHAPE_FACTS_H_
#define MESHSEAL_SCHEMA_MEANING_SHAPE_FACTS_H_

#include <cstdint>
#include <vector>

#include "schema/mesh_view.h"
#include "schema/plan.h"

namespace meshseal::meaning {

// Far above any model, low enough that products of three stay inside 64 bits.
inline constexpr uint32_t kLargestSize = 1u << 20;

// An element of a sum in rank order, float32.
inline constexpr uint64_t kAddendBytes = 4;

// Elements that share a scale in a product's q8 operand.
inline constexpr uint32_t kQ8Block = 32;

// A role's matrix: outputs are its rows, the product contracts over its inputs. A vector has no inputs.
struct RoleFacts {
  TensorRole role;
  ShapeAxis outputs;
  ShapeAxis inputs;
  bool per_expert;  // one for each routed expert
  bool fused;       // gate and up in one
  bool weight;      // a matrix of the experts or of the shared expert, which may be quantised
};

// Null for a role outside the table.
const RoleFacts* FactsOf(TensorRole role);

// Null where the class has no such tensor.
const TensorClass* FindTensor(const LayerClass& layer_class, TensorRole role);
// Null where the tensor has no such side.
const SideTensor* FindSide(const TensorClass& tensor, SideKind kind);
inline bool HasBlock(const SideTensor& side) { return side.block_rows > 0; }

// The length of an axis; `columns` and `shared` are what is there of the intermediate axis and of the shared width.
uint64_t ExtentOf(ShapeAxis axis, uint64_t hidden, const LayerClass& layer_class, uint64_t columns, uint64_t shared);
inline uint64_t ExtentOf(ShapeAxis axis, const Plan& plan, const LayerClass& layer_class, uint64_t columns,
                         uint64_t shared) {
  return ExtentOf(axis, uint64_t{plan.hidden}, layer_class, columns, shared);
}

// Whether the experts, or the shared expert, have a gate matrix.
bool IsGated(const LayerClass& layer_class);
bool SharedIsGated(const LayerClass& layer_class);

// Ranks of an expert group. Needs degrees-make-world, as what follows does.
inline uint32_t GroupSize(const Degrees& degrees) { return degrees.tp * degrees.ep; }
// Whether the ranks of an expert group bring different tokens.
inline bool Gathers(const Degrees& degrees) { return DenseGroups(degrees) > 1; }

// How the layers' tokens find their experts: kRoute, kRouteByTable or kRouteGiven.
StepKind RouteOf(const LayerClass& layer_class);

// Experts per ep coordinate, copies included. Needs experts-are-owned-once and copies-are-apart.
std::vector<uint32_t> ExpertsPerOwner(const LayerClass& layer_class, uint32_t ep);

// Columns per tp coordinate. Needs columns-are-owned-once.
std::vector<uint32_t> ColumnsPerTp(const LayerClass& layer_class);

// Columns of the shared expert on the rank at (tp, ep). Needs columns-are-owned-once.
uint32_t SharedColumnsOf(const LayerClass& layer_class, const Degrees& degrees, uint32_t tp, uint32_t ep);

}  // namespace meshseal::meaning

#endif  // MESHSEAL_SCHEMA_MEANING_SHAPE_FACTS_H_
