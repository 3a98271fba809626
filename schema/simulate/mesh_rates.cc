#include "schema/simulate/mesh_rates.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/plan_words.h"

namespace meshseal {
namespace {

LinkRates RatesOf(const Link& link) {
  return {static_cast<double>(link.latency) * 1e-9, static_cast<double>(link.bandwidth)};
}

RatesFound Missing(std::string what) { return {std::nullopt, std::move(what)}; }

}  // namespace

RatesFound RatesOf(const Plan& plan, const MeasuredRates& measured) {
  const Mesh& mesh = plan.mesh;
  for (const DeviceKind& kind : mesh.device_kinds) {
    if (kind.bandwidth == 0 && !measured.bytes.has_value()) {
      return Missing(absl::StrCat("device kind '", Shown(kind.name), "' does not state its bandwidth"));
    }
    if (kind.bf16_rate == 0 && !measured.operations.has_value()) {
      return Missing(absl::StrCat("device kind '", Shown(kind.name), "' does not state its bf16 rate"));
    }
  }
  const bool alone = mesh.rank_slots.size() == 1;
  if (mesh.island_links.empty() && !measured.link.has_value() && !alone) {
    return Missing("the mesh does not state its links");
  }
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> sharing;
  for (const RankSlot& slot : mesh.rank_slots) ++sharing[{slot.node, slot.slot}];
  MeshRates rates;
  for (const RankSlot& slot : mesh.rank_slots) {
    const Node& node = mesh.nodes[slot.node];
    const DeviceKind& kind = mesh.device_kinds[node.device_kind];
    const double ranks = sharing[{slot.node, slot.slot}];
    rates.ranks.push_back({measured.bytes.value_or(static_cast<double>(kind.bandwidth) / ranks),
                           measured.operations.value_or(static_cast<double>(kind.bf16_rate) / ranks)});
    rates.islands.push_back(node.island);
    if (rates.inside.size() <= node.island) rates.inside.resize(node.island + size_t{1});
  }
  for (size_t island = 0; island < rates.inside.size() && island < mesh.island_links.size(); ++island) {
    rates.inside[island] = RatesOf(mesh.island_links[island]);
  }
  rates.between = RatesOf(mesh.between_islands);
  if (measured.link.has_value()) {
    rates.inside.assign(rates.inside.size(), *measured.link);
    rates.between = *measured.link;
  }
  return {std::move(rates), ""};
}

}  // namespace meshseal
