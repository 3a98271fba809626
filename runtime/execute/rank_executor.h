// Executes a rank's programs, step by step, in one work arena.
//
// A rank whose step fails does not leave: it contributes zeros and an error to the program's collective,
// where all ranks learn of it and stop at the same step. Nothing of a step's output is handed out before its
// status lane was read.
#ifndef MESHSEAL_RUNTIME_EXECUTE_RANK_EXECUTOR_H_
#define MESHSEAL_RUNTIME_EXECUTE_RANK_EXECUTOR_H_

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/step_args.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/status_lane.h"
#include "runtime/execute/step_trail.h"
#include "runtime/memory/arena.h"
#include "runtime/program/rank_program.h"
#include "runtime/weights/rank_weights.h"

namespace meshseal::runtime {

// T tokens of one layer. T is at most the program's max_tokens; 0 is legal, the rank still takes part in the
// collective. Of them the rank brings B: all, or where the program gathers those of its dense group, which may be none.
struct StepInput {
  uint32_t layer = 0;
  uint64_t first_token = 0;                  // the caller's number of token 0; 0 where tokens are gathered
  uint32_t tokens = 0;                       // T
  absl::Span<const float> hidden;            // [B, H]
  absl::Span<const int32_t> token_ids = {};  // [T], where the program routes by a token table; empty elsewhere
  Routing routing = {};                      // [T*k], where the program takes a given one; empty elsewhere
  // Tokens of each dense group, where they are gathered: their sum is T; empty elsewhere.
  absl::Span<const uint32_t> group_tokens = {};
};

// The caller's memory for what it wants to have; an empty span is not filled. Means nothing when the run
// failed.
struct StepOutput {
  absl::Span<float> hidden;          // [B, H], rounded to the plan's output dtype; may be the input's memory
  absl::Span<int32_t> expert_ids;    // [T*k], slot = token*k + j
  absl::Span<float> expert_weights;  // [T*k]
};

// Move-only, used by one thread at a time. `backend` and `group`, the rank's expert group, must live longer.
class RankExecutor {
 public:
  struct Options {
    // Fill the arena with NaN before each program, so that a read of a value that was not written shows.
    bool poison = true;
    // Set when this process was asked to end; null: nobody asks. Must live longer than the executor.
    const std::atomic<bool>* drain = nullptr;
  };

  // Reserves `arena_bytes`, at least those of every program to be run. Reason kOutOfMemory.
  static absl::StatusOr<RankExecutor> Reserve(uint64_t arena_bytes, Backend& backend, Communicator& group,
                                              const Options& options);

  // One run of `program` with the weights of `input.layer`. Counters of launched projections are added to
  // `counters`, also on failure. Reasons: what the backend says, on the rank where it said it; kPeerFailed on
  // the others; kDeadline; kStatusLane; kLimit for more tokens than the program takes; kUsage for a span of
  // another size.
  absl::Status Run(const RankProgram& program, const LayerWeights& weights, const StepInput& input,
                   const StepOutput& output, StepCounters* counters);

  // Whether a rank of the group had been asked to end when the last run reached its collective: then all of them stop
  // before they begin another step.
  bool drains() const { return drains_; }

  uint64_t arena_bytes() const { return arena_.bytes().size(); }

 private:
  class Frame;

  RankExecutor(Arena arena, Backend& backend, Communicator& group, const Options& options)
      : arena_(std::move(arena)), backend_(&backend), group_(&group), options_(options) {}

  absl::Status RunBackendStep(const Frame& frame, const BoundStep& step);
  absl::Status RunGather(const Frame& frame, const BoundStep& step);
  // The same of a step that gives fixed point, where the sum is exact.
  absl::Status RunExactStep(const Frame& frame, const BoundStep& step);
  // The sum over the group, in float32 or exact; of a rank whose lane has an error, zeros are its addend.
  absl::Status Reduce(const Frame& frame, const BoundStep& step, const StatusLane& lane, StatusLane* sum);
  // `cause` is why this rank has no addend; returns the verdict that all ranks share.
  absl::Status RunCollective(const Frame& frame, uint32_t step_number, const absl::Status& cause);

  Arena arena_;
  Backend* backend_;
  Communicator* group_;
  Options options_;
  StepTrail trail_;
  bool drains_ = false;
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_EXECUTE_RANK_EXECUTOR_H_
