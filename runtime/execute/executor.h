// What runs a rank's programs, step by step, in one work arena. Where the arena lies and what computes there is the
// executor's own: rank_executor.h's is the host's.
#ifndef MESHSEAL_RUNTIME_EXECUTE_EXECUTOR_H_
#define MESHSEAL_RUNTIME_EXECUTE_EXECUTOR_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/step_args.h"
#include "runtime/program/rank_program.h"
#include "runtime/weights/rank_weights.h"

namespace meshseal::runtime {

class StepFrame;  // step_frame.h

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

// One arena for the programs of both phases.
inline uint64_t WorkBytes(const RankMemory& memory) { return std::max(memory.decode_work, memory.prefill_work); }

inline constexpr int kPoison = 0xFF;  // a float32 of these bytes is a NaN

struct ExecutorOptions {
  // Fill the arena with NaN before each program, so that a read of a value that was not written shows.
  bool poison = true;
  // Set when this process was asked to end; null: nobody asks. Must live longer than the executor.
  const std::atomic<bool>* drain = nullptr;
  // The longest wait for a device; waits for ranks have their communicator's.
  std::chrono::milliseconds deadline{30'000};
};

// Used by one thread at a time.
class Executor {
 public:
  virtual ~Executor() = default;

  // One run of `program` with the weights of `input.layer`. Counters of launched projections are added to
  // `counters`, also on failure. Reasons: what the backend says, on the rank where it said it; kPeerFailed on
  // the others; kDeadline; kStatusLane; kLimit for more tokens than the program takes; kUsage for a span of
  // another size.
  virtual absl::Status Run(const RankProgram& program, const LayerWeights& weights, const StepInput& input,
                           const StepOutput& output, StepCounters* counters) = 0;

  // Whether a rank of the group had been asked to end when the last run reached its collective: then all of them stop
  // before they begin another step.
  virtual bool drains() const = 0;

  virtual uint64_t arena_bytes() const = 0;

 protected:
  // A step that is the backend's, as one call of it: the only way to run one. Of an exact sum, in fixed point where the
  // step has that form. Reasons: the backend's, with layer and step in front.
  static absl::Status RunStep(const StepFrame& frame, uint32_t step_number, Backend& backend);

 private:
  static absl::Status RunFloat(const StepFrame& frame, const BoundStep& step, Backend& backend);
  static absl::Status RunExact(const StepFrame& frame, const BoundStep& step, Backend& backend);
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_EXECUTE_EXECUTOR_H_
