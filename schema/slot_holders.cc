#include "schema/slot_holders.h"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

namespace meshseal {
namespace {

std::optional<RankMemory> MemoryOf(const Plan& plan, const std::optional<uint32_t>& rank) {
  if (!rank.has_value() || *rank >= plan.memory.size()) return std::nullopt;
  return plan.memory[*rank];
}

}  // namespace

Slots::Slots(const Plan& a, const Plan& b, std::vector<SlotMoves>* slots) : degrees_(a.degrees), slots_(*slots) {
  using Place = std::tuple<uint32_t, uint32_t, uint32_t>;  // node, slot, nth
  std::map<std::string, uint32_t> nodes;
  std::map<Place, Both<std::optional<uint32_t>>> ranks;
  const auto add = [&](const Plan& plan, auto member) {
    for (const Node& node : plan.mesh.nodes) nodes.emplace(node.name, static_cast<uint32_t>(nodes.size()));
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> taken;
    for (uint32_t rank = 0; rank < plan.mesh.rank_slots.size(); ++rank) {
      const RankSlot& slot = plan.mesh.rank_slots[rank];
      const uint32_t node = nodes.at(plan.mesh.nodes[slot.node].name);
      const uint32_t nth = taken[{node, slot.slot}]++;
      ranks[{node, slot.slot, nth}].*member = rank;
    }
  };
  add(a, &Both<std::optional<uint32_t>>::a);
  add(b, &Both<std::optional<uint32_t>>::b);

  std::vector<std::string> names(nodes.size());
  for (const auto& [name, number] : nodes) names[number] = name;
  slot_of_a_.resize(a.mesh.rank_slots.size());
  for (const auto& [place, rank] : ranks) {
    SlotMoves slot;
    slot.node = names[std::get<0>(place)];
    slot.slot = std::get<1>(place);
    slot.nth = std::get<2>(place);
    slot.rank = rank;
    node_of_.push_back(std::get<0>(place));
    if (rank.a.has_value()) slot_of_a_[*rank.a] = slots_.size();
    slot.memory.a = MemoryOf(a, rank.a);
    slot.memory.b = MemoryOf(b, rank.b);
    slots_.push_back(std::move(slot));
  }
  holders_.resize(slot_of_a_.size() / degrees_.dp);
  stage_holders_.resize(degrees_.pp);
  for (uint32_t rank = 0; rank < slot_of_a_.size(); ++rank) {
    Coordinate at = CoordinateOf(degrees_, rank);
    at.dp = 0;
    const uint32_t node = node_of_[slot_of_a_[rank]];
    for (RankOnNode* holders : {&holders_[RankOf(degrees_, at)], &stage_holders_[at.pp]}) {
      if (holders->lowest.empty()) holders->first = rank;
      holders->lowest.emplace(node, rank);
    }
  }
}

size_t Slots::HolderOf(const std::vector<Coordinate>& coordinates, size_t receiver) const {
  std::optional<uint32_t> lowest;
  std::optional<uint32_t> lowest_near;
  for (const Coordinate& coordinate : coordinates) {
    const RankOnNode& ranks = holders_[RankOf(degrees_, coordinate)];
    lowest = std::min(lowest.value_or(ranks.first), ranks.first);
    const auto near = ranks.lowest.find(node_of_[receiver]);
    if (near != ranks.lowest.end()) lowest_near = std::min(lowest_near.value_or(near->second), near->second);
  }
  return slot_of_a_[lowest_near.value_or(*lowest)];
}

size_t Slots::StageHolderOf(uint32_t pp, size_t receiver) const {
  const RankOnNode& ranks = stage_holders_[pp];
  const auto near = ranks.lowest.find(node_of_[receiver]);
  return slot_of_a_[near == ranks.lowest.end() ? ranks.first : near->second];
}

}  // namespace meshseal
