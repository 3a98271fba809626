// A session: a sealed plan, its weights and all ranks of its world, ready to run layers.
//
// Its life: OPEN (plan bound to every rank, headers of the weights checked) -> PREFLIGHT (all ranks agree on
// what they run) -> RESERVED (all memory that the plan charges) -> LOADED (owned atoms) -> RUN, and FAILED
// from anywhere. Every stage ends with an agreement of the whole world: one rank's refusal ends it on all
// ranks, with that rank's cause, before the next stage touches anything.
#ifndef MESHSEAL_RUNTIME_SESSION_SESSION_H_
#define MESHSEAL_RUNTIME_SESSION_SESSION_H_

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/backend/step_args.h"
#include "schema/sealed_plan.h"

namespace meshseal::runtime {

struct SessionOptions {
  // Folders with the checkpoint: one for all ranks, or one per world rank.
  std::vector<std::filesystem::path> weights;
  // A plan of this version binds no digests of the weights, so the caller must say that it takes them
  // unverified.
  bool unverified_weights = false;
  // What computes: "reference".
  std::string backend = "reference";
  // What the ranks are: "inproc", threads of this process.
  std::string ranks = "inproc";
  // Run a plan whose mesh has another transport than inproc on threads all the same.
  bool emulate = false;
  // The longest wait for a peer in a run, and while a session is made, where peers read their weights
  // meanwhile.
  std::chrono::milliseconds deadline{30'000};
  std::chrono::milliseconds load_deadline{600'000};
  // Fill work memory with NaN before each program.
  bool poison = true;
};

// One call: T tokens through one layer. H is the plan's hidden size.
//
// Replica d of the plan's dp replicas takes the d-th contiguous band of rows, as equal as possible, larger
// first. Only the ranks of the pipeline stage that holds the layer run. Prefill runs in the plan's chunks.
struct RunRequest {
  uint32_t layer = 0;
  Phase phase = Phase::kInvalid;
  uint32_t tokens = 0;             // T; 0 is legal
  absl::Span<const float> hidden;  // [T, H]
  absl::Span<float> output;        // [T, H]; NaN when the run fails; may not overlap hidden
};

// What one rank did in a run.
struct RankReport {
  bool ran = false;  // its stage holds the layer
  StepCounters counters;
  double seconds = 0;
  absl::Status status;
};

struct RunResult {
  std::vector<int32_t> expert_ids;    // [T*k], slot = token*k + j
  std::vector<float> expert_weights;  // [T*k], as multiplied in
  std::vector<RankReport> ranks;      // by world rank
};

// Not thread-safe: one call at a time. Its own threads, one per rank, live only inside a call.
class Session {
 public:
  // Reasons: kUsage for a plan that was moved from; kUsage, kNotBuilt and kWeightsUnverified for options, before
  // anything is opened; then those of the weights (weights.*), preflight.*, kOutOfMemory. The text names the rank.
  static absl::StatusOr<std::unique_ptr<Session>> Create(SealedPlan plan, SessionOptions options);

  ~Session();

  const SealedPlan& plan() const { return plan_; }

  // Reasons: kLimit and kUsage for the request, before anything runs; kNonFinite, kStatusLane, kPeerFailed,
  // kDeadline, of the rank that failed first, named by the text. After such a failure the session is over:
  // every later run is refused with the same reason. `result` is filled in both cases.
  absl::Status Run(const RunRequest& request, RunResult* result);

  // All layers of the plan that have experts, in order, each reading the output of the one before it.
  // `results` gets one entry per layer that ran. Reasons: those of Run, kNotBuilt for a plan with pipeline
  // stages.
  absl::Status RunStack(Phase phase, uint32_t tokens, absl::Span<const float> hidden, absl::Span<float> output,
                        std::vector<RunResult>* results);

  // Bytes of weights that a world rank holds.
  uint64_t resident_weight_bytes(uint32_t rank) const;

 private:
  struct Rank;

  Session(SealedPlan plan, SessionOptions options);

  // The stages of one rank, on its thread.
  absl::Status Prepare(Rank& rank);
  absl::Status Open(Rank& rank);
  absl::Status Reserve(Rank& rank);
  absl::Status Load(Rank& rank);

  absl::Status CheckRequest(const RunRequest& request) const;
  absl::Status RunRank(Rank& rank, const RunRequest& request, RunResult* result);

  // Runs `work` for every rank on a thread of its own, and returns their statuses. A rank that fails ends its
  // groups.
  template <class Work>
  std::vector<absl::Status> OnAllRanks(Work work);

  SealedPlan plan_;
  SessionOptions options_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  absl::Status failure_;
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_SESSION_SESSION_H_
