// Plays the scripts of all ranks on one virtual clock, and proves that they fit each other.
//
// A rank computes without the others; a collective begins when its last member has entered it and a hand-off when both
// ranks are there, and nobody goes on before. Each group's collectives and each pair's hand-offs go by in one order and
// no rank chooses between them, so who meets whom does not depend on any duration: what is proven for one set of rates,
// or for none, is proven for all.
#ifndef MESHSEAL_SCHEMA_SIMULATE_PLAY_H_
#define MESHSEAL_SCHEMA_SIMULATE_PLAY_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "schema/simulate/mesh_rates.h"
#include "schema/simulate/rank_script.h"

namespace meshseal {

// Seconds, by what they went to. A product takes the longer of its weights and its arithmetic, and counts as that one.
struct TimeSpent {
  double weights = 0;
  double arithmetic = 0;
  double collectives = 0;
  double hand_offs = 0;
  double waiting = 0;  // for others to arrive

  double busy() const { return weights + arithmetic + collectives + hand_offs; }
  double total() const { return busy() + waiting; }
};

struct RankPlayed {
  TimeSpent spent;
  double weight_bytes = 0;
  double operations = 0;
};

struct Played {
  uint64_t operations = 0;   // of all ranks
  uint64_t collectives = 0;  // that met, steps of the plan
  uint64_t dense_sums = 0;   // that met, of what is not MoE
  uint64_t hand_offs = 0;    // that met
  std::vector<RankPlayed> ranks;
  uint32_t last_rank = 0;  // ends last
  TimeSpent critical;      // of the chain of operations that ends there; nothing on it waits
};

// Without rates all durations are 0. Reasons: kScheduleMismatch when ranks meet that do not mean the same collective or
// hand-off, kScheduleStuck when ranks wait for one that has ended or for each other; the text names all of them. kBug
// for scripts whose indices lead nowhere.
absl::StatusOr<Played> Play(const MeshScripts& scripts, const MeshRates* rates);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_SIMULATE_PLAY_H_
