// What every slot holds under two plans, and so what it keeps, drops and must receive when the second one replaces the
// first. A slot is a place (node name, slot number); ranks that share one (emulated meshes) are compared in rank order.
// Atoms are equal when model, weight source, tensor name, type, shape and scales are: no plan binds the bytes
// themselves. What is not MoE is not followed: a plan says its size only.
#ifndef MESHSEAL_SCHEMA_PLAN_MOVES_H_
#define MESHSEAL_SCHEMA_PLAN_MOVES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schema/intervals.h"
#include "schema/plan.h"

namespace meshseal {

// Of plan A and of plan B.
template <class T>
struct Both {
  T a{};
  T b{};
};

// What a slot holds of each of `layers`: experts x columns, and columns of the shared expert. No experts: nothing, and
// the columns are [0,0). An expert of which it holds a further copy is one of its experts.
struct Holding {
  Intervals layers;
  Both<Intervals> experts;
  Both<Interval> columns;
  Both<Interval> shared_columns;
};

// Bytes: kept + dropped are those of plan A, kept + received those of plan B.
struct WeightBytes {
  uint64_t kept = 0;
  uint64_t dropped = 0;
  uint64_t received = 0;
};

// Another slot that held received bytes under plan A. Of several, one on the receiver's node, else the lowest rank's.
struct MoveSource {
  size_t slot = 0;  // index into PlanMoves::slots
  uint64_t bytes = 0;
};

// Keeps a move of everybody to everybody linear in the ranks.
inline constexpr size_t kMostSources = 64;

struct SlotMoves {
  std::string node;
  uint32_t slot = 0;
  uint32_t nth = 0;  // among the ranks that share the slot
  Both<std::optional<uint32_t>> rank;
  Both<std::optional<RankMemory>> memory;
  std::vector<Holding> holdings;    // ascending by first layer; layers that are held alike are one
  WeightBytes weights;              // replicated ones included
  WeightBytes replicated;           // router, its biases and tables: held whole by every rank of a layer's stage
  std::vector<MoveSource> sources;  // ascending by slot; of more than kMostSources the largest
  size_t unlisted_sources = 0;
  uint64_t unlisted_bytes = 0;
  uint64_t from_checkpoint = 0;  // received, and held by no slot; sources make up the rest
  uint64_t sent = 0;             // what other slots receive from this one
};

struct PlanMoves {
  bool same_weights = false;     // model and weight source are the same: otherwise nothing is kept
  std::vector<SlotMoves> slots;  // by node in the order of plan A, then of B; then by number
  WeightBytes weights;           // of all slots
  WeightBytes replicated;
  uint64_t from_checkpoint = 0;
};

// Reason kMeaning, naming plan and rule, when a plan that a gate refused says nothing coherent about who owns what, or
// more bytes than 64 bits hold. Linear in ranks x (experts of a rank + pieces that it receives).
absl::StatusOr<PlanMoves> MovesBetween(const Plan& a, const Plan& b);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_PLAN_MOVES_H_
