// A sealed plan with all ranks of its world and their weights in memory, ready to run layers.
//
// It is made as a transaction: OPEN (plan bound to every rank, headers of the weights checked) -> PREFLIGHT (all ranks
// agree on what they run) -> RESERVED (all memory that the plan charges) -> STAGED (owned atoms, verified). Every stage
// ends with an agreement of the whole world: one rank's refusal ends it on all ranks, with that rank's cause, before
// the next stage touches anything; what was reserved is given back and nobody has seen any of it.
#ifndef MESHSEAL_RUNTIME_SESSION_RESIDENT_MODEL_H_
#define MESHSEAL_RUNTIME_SESSION_RESIDENT_MODEL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/session/resident_rank.h"
#include "runtime/session/run_request.h"
#include "runtime/session/session_options.h"
#include "schema/sealed_plan.h"

namespace meshseal::runtime {

// Not thread-safe: one call at a time. Its own threads, one per rank of this process and those that load, live only
// inside a call.
class ResidentModel {
 public:
  // Reasons: kUsage, kNotBuilt and kWeightsUnverified for options, before anything is opened; then those of the weights
  // (weights.*), preflight.*, kOutOfMemory. The text names the rank.
  static absl::StatusOr<std::unique_ptr<ResidentModel>> Load(SealedPlan plan, SessionOptions options);

  const std::shared_ptr<const SealedPlan>& plan() const { return plan_; }

  // As Session::Run and Session::RunStack.
  absl::Status Run(const RunRequest& request, RunResult* result);
  absl::Status RunStack(const StackRequest& request, std::vector<RunResult>* results);

  // Bytes that a world rank has reserved: of weights, and of its work arena; 0 for a rank of another process.
  uint64_t resident_weight_bytes(uint32_t rank) const;
  uint64_t work_bytes(uint32_t rank) const;

 private:
  ResidentModel(SealedPlan plan, SessionOptions options);

  const ResidentRank* FindRank(uint32_t rank) const;

  // Ranks fail together in scopes: the world, or replicas.
  uint32_t scopes() const { return static_cast<uint32_t>(failures_.size()); }
  uint32_t ScopeOf(const ResidentRank& rank) const { return rank.rank() / scope_ranks_; }
  // Of those that have ranks in this process, whether all are over.
  bool AllOver() const;
  // Whether this process knows how that scope ended: its own, and all of them where it has or collects what they did.
  bool Knows(uint32_t scope) const;

  // OK while anything can run.
  absl::Status CheckAlive() const;

  absl::Status RunCall(const LayerCall& call, uint32_t tokens, std::vector<RunResult>* results);

  // What a call gave of scopes that failed: nothing.
  void Blank(const LayerCall& call, std::vector<RunResult>* results) const;

  // How a call ended for this process, of which the scopes in `over_before` took no part.
  absl::Status VerdictOf(const LayerCall& call, const std::vector<bool>& over_before) const;

  // Runs `work` for every rank of this process whose scope is not over, on a thread of its own, and returns the
  // statuses of all. `end_others` is called for a rank that fails.
  template <class Work, class EndOthers>
  std::vector<absl::Status> OnAllRanks(Work work, EndOthers end_others);

  // The cause behind the statuses of this process's ranks in `scope`, or in all: the first one that does not blame a
  // peer, with its rank in front.
  absl::Status CauseOf(absl::Span<const absl::Status> statuses, std::optional<uint32_t> scope) const;

  std::shared_ptr<const SealedPlan> plan_;
  SessionOptions options_;
  const uint32_t scope_ranks_;
  std::vector<std::unique_ptr<ResidentRank>> ranks_;
  std::vector<absl::Status> failures_;  // by scope, as far as this process knows
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_SESSION_RESIDENT_MODEL_H_
