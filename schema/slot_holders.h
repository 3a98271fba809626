// Which places hold what under a plan; a part of plan_moves.
#ifndef MESHSEAL_SCHEMA_SLOT_HOLDERS_H_
#define MESHSEAL_SCHEMA_SLOT_HOLDERS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "schema/mesh_view.h"
#include "schema/plan.h"
#include "schema/plan_moves.h"

namespace meshseal {

// The slots of both plans, and which of them hold a coordinate of plan A.
class Slots {
 public:
  // Appends the slots: by node in the order of plan A, then of B; then by number.
  Slots(const Plan& a, const Plan& b, std::vector<SlotMoves>* slots);

  // A slot that held what plan A gives to each of `coordinates`, whatever its dp: one near `receiver`, else the lowest
  // rank's.
  size_t HolderOf(const std::vector<Coordinate>& coordinates, size_t receiver) const;

  // A slot that held what every rank of stage `pp` of plan A has.
  size_t StageHolderOf(uint32_t pp, size_t receiver) const;

 private:
  struct RankOnNode {
    uint32_t first = 0;                   // the lowest rank of all
    std::map<uint32_t, uint32_t> lowest;  // the lowest rank on each node
  };

  const Degrees& degrees_;
  std::vector<SlotMoves>& slots_;
  std::vector<uint32_t> node_of_;          // per slot
  std::vector<size_t> slot_of_a_;          // per rank of A
  std::vector<RankOnNode> holders_;        // per rank of A with dp 0
  std::vector<RankOnNode> stage_holders_;  // per pp coordinate of A
};

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_SLOT_HOLDERS_H_
