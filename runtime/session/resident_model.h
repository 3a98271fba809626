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
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/session/run_request.h"
#include "runtime/session/session_options.h"
#include "runtime/weights/weight_files.h"
#include "schema/sealed_digests.h"
#include "schema/sealed_plan.h"

namespace meshseal::runtime {

// Not thread-safe: one call at a time. Its own threads, one per rank and those that load, live only inside a call.
class ResidentModel {
 public:
  // Reasons: kUsage, kNotBuilt and kWeightsUnverified for options, before anything is opened; then those of the weights
  // (weights.*), preflight.*, kOutOfMemory. The text names the rank.
  static absl::StatusOr<std::unique_ptr<ResidentModel>> Load(SealedPlan plan, SessionOptions options);

  ~ResidentModel();

  const std::shared_ptr<const SealedPlan>& plan() const { return plan_; }

  // As Session::Run and Session::RunStack.
  absl::Status Run(const RunRequest& request, RunResult* result);
  absl::Status RunStack(const StackRequest& request, std::vector<RunResult>* results);

  // Bytes that a world rank has reserved: of weights, and of its work arena.
  uint64_t resident_weight_bytes(uint32_t rank) const;
  uint64_t work_bytes(uint32_t rank) const;

 private:
  struct Rank;

  ResidentModel(SealedPlan plan, SessionOptions options);

  // The stages of one rank, on its thread.
  absl::Status Prepare(Rank& rank);
  absl::Status Open(Rank& rank);
  absl::Status Reserve(Rank& rank);
  absl::Status Load(Rank& rank);
  // The rank's checkpoint; opened once where all ranks have the same.
  absl::StatusOr<std::shared_ptr<const WeightFiles>> FilesOf(const Rank& rank);

  absl::Status CheckRequest(const RunRequest& request) const;
  // What of a request only some layers read: token ids and a routing.
  absl::Status CheckRouting(const RunRequest& request) const;
  absl::Status RunRank(Rank& rank, const RunRequest& request, RunResult* result);

  // Runs `work` for every rank on a thread of its own, and returns their statuses. A rank that fails ends its
  // groups.
  template <class Work>
  std::vector<absl::Status> OnAllRanks(Work work);

  std::shared_ptr<const SealedPlan> plan_;
  SessionOptions options_;
  std::optional<SealedDigests> digests_;  // until all is loaded, like what follows
  std::mutex files_mutex_;
  std::optional<absl::StatusOr<std::shared_ptr<const WeightFiles>>> files_;  // of all ranks
  std::vector<std::unique_ptr<Rank>> ranks_;
  absl::Status failure_;
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_SESSION_RESIDENT_MODEL_H_
