// The coordinate of a rank in the MoE view of a mesh, the groups it belongs to, and its device.
//   rank = ((dp * PP + pp) * TP + tp) * EP + ep: ep varies fastest; world = DP * PP * TP * EP.
// These are definitions of the format, so the compiler, the validator and the runtime read them here.
#ifndef MESHSEAL_SCHEMA_MESH_VIEW_H_
#define MESHSEAL_SCHEMA_MESH_VIEW_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schema/plan.h"

namespace meshseal {

struct Coordinate {
  uint32_t dp = 0;
  uint32_t pp = 0;
  uint32_t tp = 0;
  uint32_t ep = 0;
  friend bool operator==(const Coordinate&, const Coordinate&) = default;
};

// The number of ranks; nothing when a degree is 0 or the product does not fit 32 bits.
std::optional<uint32_t> WorldOf(const Degrees& degrees);

// Both need degrees with a world and a coordinate or rank inside it.
uint32_t RankOf(const Degrees& degrees, const Coordinate& coordinate);
Coordinate CoordinateOf(const Degrees& degrees, uint32_t rank);

enum class MeshGroup : uint8_t { kDp, kPp, kTp, kEp, kExpert };

// The ranks of `rank`'s group, ascending. The expert group varies tp and ep at fixed (dp, pp).
std::vector<uint32_t> GroupOf(const Degrees& degrees, MeshGroup group, uint32_t rank);

// The dense groups of an expert group: dense_tp of its ranks that follow each other, which bring the same tokens.
inline uint32_t DenseGroups(const Degrees& degrees) { return degrees.tp * degrees.ep / degrees.dense_tp; }
inline uint32_t DenseGroupOf(const Degrees& degrees, const Coordinate& at) {
  return (at.tp * degrees.ep + at.ep) / degrees.dense_tp;
}

// What the mesh says of a rank's device. Needs a mesh whose indices are in range, as the gate 'meaning' has it.
const DeviceKind& DeviceKindOf(const Mesh& mesh, uint32_t rank);
// A rank's device, by node and slot; the slots of a host share it.
std::pair<uint32_t, uint32_t> DeviceOf(const Mesh& mesh, uint32_t rank);

// "dp0 pp0 tp1 ep3"
std::string CoordinateText(const Coordinate& coordinate);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_MESH_VIEW_H_
