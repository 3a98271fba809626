#include "schema/mesh_view.h"

#include "absl/strings/str_cat.h"

namespace meshseal {

std::optional<uint32_t> WorldOf(const Degrees& degrees) {
  uint64_t world = 1;
  for (const uint32_t degree : {degrees.dp, degrees.pp, degrees.tp, degrees.ep}) {
    if (degree == 0) return std::nullopt;
    world *= degree;
    if (world > UINT32_MAX) return std::nullopt;
  }
  return static_cast<uint32_t>(world);
}

uint32_t RankOf(const Degrees& degrees, const Coordinate& coordinate) {
  return ((coordinate.dp * degrees.pp + coordinate.pp) * degrees.tp + coordinate.tp) * degrees.ep + coordinate.ep;
}

Coordinate CoordinateOf(const Degrees& degrees, uint32_t rank) {
  Coordinate coordinate;
  coordinate.ep = rank % degrees.ep;
  rank /= degrees.ep;
  coordinate.tp = rank % degrees.tp;
  rank /= degrees.tp;
  coordinate.pp = rank % degrees.pp;
  coordinate.dp = rank / degrees.pp;
  return coordinate;
}

std::vector<uint32_t> GroupOf(const Degrees& degrees, MeshGroup group, uint32_t rank) {
  const Coordinate own = CoordinateOf(degrees, rank);
  struct Range {
    uint32_t first;
    uint32_t last;
  };
  const auto range = [](bool varies, uint32_t own_index, uint32_t degree) {
    return varies ? Range{0, degree} : Range{own_index, own_index + 1};
  };
  const Range dp = range(group == MeshGroup::kDp, own.dp, degrees.dp);
  const Range pp = range(group == MeshGroup::kPp, own.pp, degrees.pp);
  const Range tp = range(group == MeshGroup::kTp || group == MeshGroup::kExpert, own.tp, degrees.tp);
  const Range ep = range(group == MeshGroup::kEp || group == MeshGroup::kExpert, own.ep, degrees.ep);
  std::vector<uint32_t> ranks;
  for (uint32_t d = dp.first; d < dp.last; ++d) {
    for (uint32_t p = pp.first; p < pp.last; ++p) {
      for (uint32_t t = tp.first; t < tp.last; ++t) {
        for (uint32_t e = ep.first; e < ep.last; ++e) ranks.push_back(RankOf(degrees, {d, p, t, e}));
      }
    }
  }
  return ranks;
}

const DeviceKind& DeviceKindOf(const Mesh& mesh, uint32_t rank) {
  return mesh.device_kinds[mesh.nodes[mesh.rank_slots[rank].node].device_kind];
}

std::pair<uint32_t, uint32_t> DeviceOf(const Mesh& mesh, uint32_t rank) {
  const RankSlot& slot = mesh.rank_slots[rank];
  return {slot.node, DeviceKindOf(mesh, rank).memory_kind == MemoryKind::kHost ? 0 : slot.slot};
}

std::string CoordinateText(const Coordinate& c) {
  return absl::StrCat("dp", c.dp, " pp", c.pp, " tp", c.tp, " ep", c.ep);
}

}  // namespace meshseal
