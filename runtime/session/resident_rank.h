// One rank of a resident model: its stages from OPEN to its last run, on one thread at a time.
#ifndef MESHSEAL_RUNTIME_SESSION_RESIDENT_RANK_H_
#define MESHSEAL_RUNTIME_SESSION_RESIDENT_RANK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/endpoint.h"
#include "runtime/execute/executor.h"
#include "runtime/program/rank_program.h"
#include "runtime/session/compute.h"
#include "runtime/session/run_request.h"
#include "runtime/session/session_options.h"
#include "runtime/session/token_bands.h"
#include "runtime/weights/rank_weights.h"
#include "runtime/weights/weight_files.h"
#include "schema/mesh_view.h"
#include "schema/sealed_digests.h"
#include "schema/sealed_plan.h"

namespace meshseal::runtime {

// What the ranks of a process share while they load, and the checkpoint, opened once where it is the same for all.
class LoadSource {
 public:
  // Reasons: those of ReadDigestsFile, SealedDigests::Open and CheckBound.
  static absl::StatusOr<std::unique_ptr<LoadSource>> Open(std::shared_ptr<const SealedPlan> plan,
                                                          const SessionOptions& options);

  absl::StatusOr<std::shared_ptr<const WeightFiles>> FilesOf(uint32_t rank);

  // Threads that each of this process's `ranks` reads with.
  uint32_t ThreadsOf(size_t ranks) const;
  LoadProgress* progress() const { return options_.progress; }

 private:
  LoadSource(std::shared_ptr<const SealedPlan> plan, const SessionOptions& options)
      : plan_(std::move(plan)), options_(options) {}

  const std::shared_ptr<const SealedPlan> plan_;
  const SessionOptions& options_;
  std::optional<SealedDigests> digests_;
  std::mutex mutex_;
  std::optional<absl::StatusOr<std::shared_ptr<const WeightFiles>>> files_;  // of all ranks
};

// Tokens through layers, one after the other, each reading what the one before it gave.
struct LayerCall {
  Phase phase = Phase::kInvalid;
  std::vector<uint32_t> layers;  // ascending, not empty, all with experts
  TokenBands bands;
  // As in RunRequest; token ids are read by the layers that route by a table.
  absl::Span<const float> hidden;
  absl::Span<float> output;
  absl::Span<const int32_t> token_ids;
  Routing routing;
};

class ResidentRank {
 public:
  // The endpoint's rank, one of `peers` ranks of this process. Reason kOutOfMemory, kNotBuilt.
  static absl::StatusOr<std::unique_ptr<ResidentRank>> Make(std::shared_ptr<const SealedPlan> plan,
                                                            std::unique_ptr<Endpoint> endpoint, size_t peers,
                                                            const SessionOptions& options);

  uint32_t rank() const { return endpoint_->rank(); }

  // OPEN, PREFLIGHT, RESERVED, STAGED, BOUND, each with the agreement of the whole world.
  absl::Status Prepare(LoadSource& source);

  // This rank's part of a call: its stage's layers. Whole when all ranks of the world are in this process; otherwise
  // the ranks of its scope agree on how it ended, the scope's first rank gets what the others hand out, and world rank
  // 0 what the first ranks have. `results` has one entry per layer of the call, and each of their `ranks` one per world
  // rank.
  absl::Status Run(const LayerCall& call, std::vector<RunResult>* results);

  // Why this rank got nothing of another scope, in this call or one before: the cause with which that one ended, or
  // that it did not come. OK for all others.
  const absl::Status& LossOf(uint32_t scope) const { return lost_[scope]; }

  // Around each of Prepare and Run, as in Endpoint.
  void BeginCall() { endpoint_->BeginCall(); }
  void EndCall() { endpoint_->EndCall(); }

  // Whether it has heard that a rank ended the world.
  bool IsWorldOver() const { return !endpoint_->Check(Channel::kWorld).ok(); }

  // Ends the world, or only the rank's scope, for all their ranks.
  void EndWorld(const absl::Status& cause) { endpoint_->Abort(Channel::kWorld, cause); }
  void EndScope(const absl::Status& cause) { endpoint_->Abort(Channel::kScope, cause); }

  uint64_t resident_weight_bytes() const { return weights_->resident_bytes(); }
  uint64_t work_bytes() const { return executor_->arena_bytes(); }

 private:
  ResidentRank(std::shared_ptr<const SealedPlan> plan, std::unique_ptr<Endpoint> endpoint, size_t peers,
               const SessionOptions& options);

  absl::Status MakeScopes();
  absl::Status Open(LoadSource& source);
  absl::Status Reserve(LoadSource& source);
  absl::Status Load(LoadSource& source);

  absl::Status RunLayers(const LayerCall& call, std::vector<RunResult>* results);
  // The layers [first, last) of the call, which are this stage's, for one round.
  absl::Status RunRound(const LayerCall& call, const Round& round, size_t first, size_t last,
                        std::vector<RunResult>* results);
  uint32_t scopes() const { return static_cast<uint32_t>(lost_.size()); }
  uint32_t ScopeOf(uint32_t rank) const { return rank / (endpoint_->world() / scopes()); }
  uint32_t FirstOfScope(uint32_t scope) const { return scope * (endpoint_->world() / scopes()); }
  // Of the ranks that fail together.
  Communicator& scope() const { return scope_ == nullptr ? *world_ : *scope_; }

  // To the first rank of the scope, of what other processes' ranks have run: reports, routings, rows.
  absl::Status Collect(const LayerCall& call, std::vector<RunResult>* results);
  absl::Status CollectReports(std::vector<RunResult>* results);
  // To world rank 0, of what the first ranks of other scopes have; the other ranks of the scope wait. What does not
  // come is lost (LossOf).
  absl::Status MeetScopes(const LayerCall& call, std::vector<RunResult>* results);
  // What scope `scope` has, from its first rank to world rank 0: on both of them.
  absl::Status HandOver(Communicator& pair, uint32_t scope, const LayerCall& call, std::vector<RunResult>* results);

  const std::shared_ptr<const SealedPlan> plan_;
  const SessionOptions& options_;
  const std::unique_ptr<Endpoint> endpoint_;  // the groups' below live shorter
  const size_t peers_;
  const Coordinate at_;
  std::unique_ptr<Communicator> world_;     // agreements of all ranks
  std::unique_ptr<Communicator> scope_;     // of those of its scope, in calls; null: the scope is the world
  std::unique_ptr<Communicator> group_;     // the one collective of its expert group
  std::unique_ptr<Communicator> pipeline_;  // hand-offs between stages
  // Between the first ranks of scopes in other processes: world rank 0 with each other one, by scope. Each has its own
  // memory, because what failed may still be at work on it.
  std::vector<std::unique_ptr<Communicator>> pairs_;
  std::vector<absl::Status> lost_;  // by scope
  uint64_t meetings_ = 0;           // of first ranks, of which each call is one
  std::unique_ptr<RankCompute> compute_;
  std::shared_ptr<const WeightFiles> files_;  // until they are loaded
  std::vector<RankProgram> decode_;           // by layer class
  std::vector<RankProgram> prefill_;
  std::optional<RankWeights> weights_;
  std::unique_ptr<Executor> executor_;
  std::vector<float> rows_;  // between layers
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_SESSION_RESIDENT_RANK_H_
