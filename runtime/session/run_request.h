// What a session is asked to run, and what it tells of it.
#ifndef MESHSEAL_RUNTIME_SESSION_RUN_REQUEST_H_
#define MESHSEAL_RUNTIME_SESSION_RUN_REQUEST_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/backend/step_args.h"
#include "schema/terms.h"

namespace meshseal::runtime {

// Names a model that a session has published: its generation, from 1 on, which the session never uses again.
struct ModelHandle {
  uint64_t generation = 0;  // 0: none
  friend bool operator==(const ModelHandle&, const ModelHandle&) = default;
};

// One call: T tokens through one layer. H is the plan's hidden size.
//
// Every dense group of every replica brings a contiguous band of rows. Only the ranks of the pipeline stage that holds
// the layer run. Prefill runs in the plan's chunks. Where the ranks are several processes, each makes the same call,
// and that of world rank 0 alone gets the whole output and the whole result.
//
// Under the failure scope 'replica' (dp replicas that fail alone), a replica's failure ends that replica alone. The
// call fails, names it and what became of the others, and has the rows and routings of those that ended well; of a
// replica that failed it has NaN and no expert (-1). Later calls run on the others, and fail as long as they have
// tokens for one that is over. Where the ranks are several processes, the first rank of each replica gets its own
// replica's rows and routings (others' rows are left as they were), and each call ends for a process as its own replica
// does; for world rank 0, as all do.
struct RunRequest {
  uint32_t layer = 0;
  Phase phase = Phase::kInvalid;
  uint32_t tokens = 0;             // T; 0 is legal
  absl::Span<const float> hidden;  // [T, H]
  absl::Span<float> output;  // [T, H]; NaN where the run fails: all of it, or a replica's rows; may not overlap hidden
  absl::Span<const int32_t> token_ids = {};  // [T], exactly where the layer routes by a token table
  Routing routing = {};                      // [T*k], exactly where the layer's routing is precomputed; taken as it is
  // Tokens of each dense group of each replica, in the order of their bands; empty: as equal as possible over the
  // replicas, then over their groups, larger first.
  absl::Span<const uint32_t> group_tokens = {};
  ModelHandle model = {};  // the one that must be resident; none: whichever is
};

// T tokens through all layers that have experts.
struct StackRequest {
  Phase phase = Phase::kInvalid;
  uint32_t tokens = 0;
  absl::Span<const float> hidden;            // [T, H]
  absl::Span<float> output;                  // [T, H]; as in RunRequest
  absl::Span<const int32_t> token_ids = {};  // [T], exactly where a layer routes by a token table
  absl::Span<const uint32_t> group_tokens = {};
  ModelHandle model = {};  // the one that must be resident; none: whichever is
};

// What one rank did in a run.
struct RankReport {
  bool ran = false;  // its stage holds the layer
  StepCounters counters;
  double seconds = 0;
  // Of `seconds`, in the collectives of its expert group: sums, and gathers where tokens are gathered, once a round
  // each. A group of one has none.
  uint64_t collectives = 0;
  uint64_t collective_bytes = 0;  // received from other members
  double waited_seconds = 0;      // from its own arrival until the last member's announcement
  double collective_seconds = 0;  // from then on: moving and adding
  absl::Status status;

  // In its other steps.
  double computing_seconds() const { return seconds - waited_seconds - collective_seconds; }
};

struct RunResult {
  std::vector<int32_t> expert_ids;    // [T*k], slot = token*k + j
  std::vector<float> expert_weights;  // [T*k], as multiplied in
  std::vector<RankReport> ranks;      // by world rank
  // Under the failure scope 'replica', how each replica of the plan ended, in this call or one before; nothing where
  // another process knows. Empty under the scope 'world'.
  std::vector<std::optional<absl::Status>> replicas;
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_SESSION_RUN_REQUEST_H_
