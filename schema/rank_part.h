// What a rank holds of a layer class, for listings and comparisons: its experts, its columns, its part of the shared
// expert, the local shape of a tensor and its bytes as stored. Also of a plan that a gate refused: an index that leads
// nowhere holds nothing.
#ifndef MESHSEAL_SCHEMA_RANK_PART_H_
#define MESHSEAL_SCHEMA_RANK_PART_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "schema/intervals.h"
#include "schema/meaning/shape_facts.h"
#include "schema/plan.h"

namespace meshseal {

// Ascending expert numbers.
struct HeldExperts {
  std::vector<uint32_t> all;
  std::vector<uint32_t> copies;  // those held as a further copy
};
HeldExperts ExpertsOf(const LayerClass& c, uint32_t ep);

// The columns of the intermediate axis of a tp coordinate; [0,0) for none.
Interval ColumnsOf(const LayerClass& c, uint32_t tp);

// The columns of the shared expert of the rank at (tp, ep) of its group; [0,0) for none.
Interval SharedColumnsOf(const LayerClass& c, const Degrees& degrees, uint32_t tp, uint32_t ep);

// Which rule decides what of a tensor lies on a rank.
enum class TensorScope : uint8_t {
  kReplicated,  // whole on every rank of the stage
  kExperts,     // of the rank's experts its columns
  kShared,      // its columns of the shared expert
};

TensorScope ScopeOf(const meaning::RoleFacts& facts);

// Whether the axis is cut into columns.
bool IsCut(ShapeAxis axis);

// Bytes of a matrix of `outputs` x `inputs` (a vector has 1 input) as stored; blocks at an edge are whole, and each
// half of gate and up has a scale where there are no blocks. Nothing when they need more than 64 bits or the dtype is
// unknown.
std::optional<uint64_t> SideBytes(const TensorClass& tensor, const SideTensor& side, uint64_t outputs, uint64_t inputs);
std::optional<uint64_t> BytesWithoutSides(const TensorClass& tensor, uint64_t outputs, uint64_t inputs);
std::optional<uint64_t> StoredBytes(const TensorClass& tensor, uint64_t outputs, uint64_t inputs);

// What of a tensor lies on a rank: `count` matrices (0: nothing) of `outputs` x `inputs`, with these columns of the cut
// axis.
struct LocalTensor {
  uint64_t count = 1;
  uint64_t outputs = 0;
  uint64_t inputs = 0;
  Interval columns;
};
LocalTensor LocalOf(const Plan& plan, const LayerClass& c, const meaning::RoleFacts& facts, uint64_t experts,
                    const Interval& columns, const Interval& shared_columns);

// All of one layer on the rank at (tp, ep) of its group. Nothing as above, or when a role is unknown.
std::optional<uint64_t> LayerBytesAt(const Plan& plan, const LayerClass& c, uint32_t tp, uint32_t ep);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_RANK_PART_H_
