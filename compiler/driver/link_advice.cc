#include "compiler/driver/link_advice.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/budget/price.h"
#include "compiler/driver/memory_help.h"
#include "schema/byte_text.h"
#include "schema/mesh_view.h"

namespace meshseal::compiler {
namespace {

constexpr uint64_t kActivationBytes = 2;  // what is not MoE, and what stages hand on, is bf16
constexpr uint64_t kAddendBytes = 4;      // addends of a block are float32

// Islands on which ranks that cut the same matrix lie, at most: of what is not MoE, and of an expert.
struct IslandsOfGroups {
  uint64_t dense = 1;
  uint64_t tp = 1;
};

IslandsOfGroups CountIslands(const CheckedModel& checked, const Placement& placement) {
  const std::vector<uint32_t> islands = IslandOfNode(checked.mesh());
  const Degrees& degrees = placement.degrees();
  const auto world = static_cast<uint32_t>(placement.rank_slots().size());
  const auto count = [&](uint32_t first, uint32_t size, uint32_t stride) {
    std::set<uint32_t> of_group;
    for (uint32_t i = 0; i < size; ++i) of_group.insert(islands[placement.rank_slots()[first + i * stride].node]);
    return uint64_t{of_group.size()};
  };
  IslandsOfGroups most;
  for (uint32_t first = 0; first < world; first += degrees.dense_tp) {
    most.dense = std::max(most.dense, count(first, degrees.dense_tp, 1));
  }
  for (uint32_t rank = 0; rank < world; ++rank) {
    if (CoordinateOf(degrees, rank).tp == 0) most.tp = std::max(most.tp, count(rank, degrees.tp, degrees.ep));
  }
  return most;
}

// The same world with `times` as many stages of groups that are as much smaller, if it holds every rule.
bool FindStages(uint64_t times, CheckedDocuments& candidate) {
  Deployment& d = candidate.deployment();
  if (d.stages.has_value()) return false;
  d.pp.value *= times;
  if (d.tp.value % times == 0) {
    d.tp.value /= times;
  } else if (d.ep.value % times == 0) {
    d.ep.value /= times;
  } else {
    return false;
  }
  return FindDenseTp(candidate);
}

}  // namespace

void WarnOfSlowLinks(const CheckedModel& checked, const Placement& placement, Diagnostics& diagnostics) {
  const IslandsOfGroups of_groups = CountIslands(checked, placement);
  const uint64_t islands = std::max(of_groups.dense, of_groups.tp);
  if (islands == 1) return;
  CheckedDocuments candidate = checked.documents();
  if (!FindStages(islands, candidate)) return;
  const Manifest& model = checked.model();
  const Deployment& d = checked.deployment();
  const uint64_t hidden = model.hidden_size.value;
  const uint64_t layers = model.layers.value;
  uint64_t moe_layers = 0;
  for (const LayerGroup& group : model.groups) {
    for (const LayerRange& range : group.layers) moe_layers += range.last - range.first;
  }
  // Attention and the MLP of dense layers are summed over the dense ranks, a block over its group, which has them and
  // the ranks of a cut expert.
  const uint64_t dense_sums = of_groups.dense > 1 ? layers + (layers - moe_layers) : 0;
  const uint64_t bytes = hidden * (dense_sums * kActivationBytes + moe_layers * kAddendBytes);
  diagnostics
      .Warning("groups-stay-in-islands", d.parallel_span,
               absl::StrCat("tensor parallelism lies on ", islands, " islands: ", dense_sums + moe_layers,
                            " sums over links between islands and ", ByteText(bytes), " a decode step of one token; ",
                            DegreesText(candidate.deployment()), " needs ", islands - 1, " hand-off",
                            islands == 2 ? "" : "s", " of ", ByteText(hidden * kActivationBytes)))
      .notes.push_back({checked.mesh().between_islands.has_value() ? checked.mesh().between_islands->latency.span
                                                                   : checked.mesh().islands_span,
                        "each of them takes this link's latency"});
}

}  // namespace meshseal::compiler
