// The scripts of a plan's ranks: each rank's layers, step by step, with its collective a layer, its gather where its
// tokens are not those of its group, its hand-offs between pipeline stages, and what is not MoE.
//
// Tokens select experts as the plan's load says where one was measured, else evenly, and independently of each other.
// Work that only moves activations within a rank costs nothing here.
#ifndef MESHSEAL_SCHEMA_SIMULATE_PLAN_SCRIPTS_H_
#define MESHSEAL_SCHEMA_SIMULATE_PLAN_SCRIPTS_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "schema/plan.h"
#include "schema/simulate/rank_script.h"

namespace meshseal {

struct PlayedWork {
  Phase phase = Phase::kInvalid;
  uint32_t tokens = 0;  // of each expert group: of one dp replica
  // Only this layer's program: no other layer, nothing that is not MoE, no hand-off.
  std::optional<uint32_t> layer;
};

// The most tokens that the plan runs in a phase, and the tokens of its step or chunk.
uint32_t MostTokens(const Plan& plan, Phase phase);
uint32_t StepTokens(const Plan& plan, Phase phase);

// Prefill above a chunk runs chunk after chunk, so that stages overlap. Needs a plan that passed all gates. Reasons:
// kLimit for more tokens than the plan's limit, kUsage for none, and for a layer without experts.
absl::StatusOr<MeshScripts> ScriptsOf(const Plan& plan, const PlayedWork& work);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_SIMULATE_PLAN_SCRIPTS_H_
