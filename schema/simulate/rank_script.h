// What every rank of a mesh does, as a list of operations: it computes for itself, or it meets others.
//
// Ranks that do the same share one list, whose groups and peers are each rank's own; every rank is still played for
// itself. Nothing here knows a plan: plan_scripts.h makes the lists of one.
#ifndef MESHSEAL_SCHEMA_SIMULATE_RANK_SCRIPT_H_
#define MESHSEAL_SCHEMA_SIMULATE_RANK_SCRIPT_H_

#include <cstdint>
#include <vector>

namespace meshseal {

enum class ScriptOpKind : uint8_t {
  kCompute,
  kCollective,  // all ranks of a group meet
  kSend,        // two ranks meet: it hands its tokens to a peer
  kReceive,     // and takes a peer's
};

enum class Movement : uint8_t {
  kNone,
  kSum,
  kReduceScatter,
  kGather,
  kDenseSum,  // of what is not MoE: of the model, not a step of the plan
};

struct ScriptOp {
  ScriptOpKind kind = ScriptOpKind::kCompute;
  Movement movement = Movement::kNone;  // of a collective
  uint32_t layer = 0;
  uint32_t step = 0;      // of the layer's program, from 1; 0: not of a program
  uint32_t with = 0;      // index into the rank's groups (collective) or peers (send, receive)
  uint32_t rounds = 0;    // latencies one after the other
  uint64_t elements = 0;  // that a member brings, or hands over: the same on all who meet
  double bytes = 0;       // weights that are read; or what is received from each other member
  double operations = 0;  // floating-point
  friend bool operator==(const ScriptOp&, const ScriptOp&) = default;
};

using Script = std::vector<ScriptOp>;

// A script, one time after the other.
struct Passage {
  uint32_t script = 0;  // index into MeshScripts::scripts
  uint32_t times = 1;
  friend bool operator==(const Passage&, const Passage&) = default;
};

struct RankScript {
  std::vector<Passage> passages;
  std::vector<uint32_t> groups;  // indices into MeshScripts::groups
  std::vector<uint32_t> peers;   // ranks
};

struct MeshScripts {
  std::vector<Script> scripts;
  std::vector<std::vector<uint32_t>> groups;  // ascending ranks
  std::vector<RankScript> ranks;              // by rank
};

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_SIMULATE_RANK_SCRIPT_H_
