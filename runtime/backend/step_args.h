// What each step reads and writes: spans into the rank's work arena and views of its weights.
//
// T tokens, k slots per token, H hidden, C the rank's own columns of the intermediate axis, E experts of the
// layer, L experts that this rank owns. Matrices are row-major without gaps. Token rows [T, H]; slot rows
// [T*k, ...], slot = token*k + j; grouped rows [capacity, ...]. Sizes are checked by whoever makes the args:
// the executor.
#ifndef MESHSEAL_RUNTIME_BACKEND_STEP_ARGS_H_
#define MESHSEAL_RUNTIME_BACKEND_STEP_ARGS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "runtime/weights/rank_weights.h"
#include "runtime/weights/weight_matrix.h"
#include "schema/plan.h"
#include "schema/terms.h"

namespace meshseal::runtime {

struct StepShape {
  uint64_t first_token = 0;  // the caller's number of token 0, for messages
  uint32_t tokens = 0;       // T
  uint32_t top_k = 0;        // k
  uint32_t hidden = 0;       // H
  uint32_t columns = 0;      // C
  uint64_t slots() const { return uint64_t{tokens} * top_k; }
};

// Which expert each slot goes to, and with what weight. [T*k] each.
struct Routing {
  absl::Span<const int32_t> experts;
  absl::Span<const float> weights;
};

// The slots whose expert this rank owns, grouped by local expert.
struct Grouping {
  absl::Span<const int32_t> slot_of_row;  // [capacity]; -1 for a row without a slot
  absl::Span<const int32_t> row_of_slot;  // [T*k]; -1 for a slot of another rank
  absl::Span<const int32_t> first_row;    // [L + 1]; rows of local expert e are [first_row[e], first_row[e + 1])
};

// The owner view that every step of a program shares: routing, and per expert of the layer its local number
// here, -1 when another rank owns it.
struct OwnedSlots {
  Routing routing;
  absl::Span<const int32_t> local_of_expert;  // [E]

  // The local expert of a slot; -1 for a slot of another rank.
  int32_t LocalExpert(uint64_t slot) const { return local_of_expert[static_cast<size_t>(routing.experts[slot])]; }
};

// What a rank launched: a slot's row times an expert's matrix is one projection.
struct StepCounters {
  uint64_t gate_up_slots = 0;
  uint64_t down_slots = 0;
};

struct RouteArgs {
  StepShape shape;
  Router router;
  WeightMatrix weight;          // [E, H]
  WeightMatrix bias;            // [1, E], added to the logits; no columns where the layer has none
  WeightMatrix selection_bias;  // [1, E], added to what is compared, not to the weights; likewise
  absl::Span<const float> x;    // [T, H]
  absl::Span<int32_t> experts;  // out [T*k]
  absl::Span<float> weights;    // out [T*k]
};

struct ScatterArgs {
  StepShape shape;
  OwnedSlots owned;
  uint32_t local_experts = 0;       // L
  uint32_t tile_rows = 0;           // each expert's rows start at a multiple of it
  absl::Span<const float> x;        // [T, H]
  absl::Span<float> rows;           // out [capacity, H]
  absl::Span<int32_t> slot_of_row;  // out, as in Grouping
  absl::Span<int32_t> row_of_slot;
  absl::Span<int32_t> first_row;
};

struct GateUpArgs {
  StepShape shape;
  OwnedSlots owned;
  Basis basis = Basis::kInvalid;            // what x is rounded to
  absl::Span<const ExpertWeights> experts;  // [L]
  absl::Span<const float> x;                // [T, H]
  absl::Span<float> out;                    // [T*k, 2C]: gate columns, then up columns
  StepCounters* counters = nullptr;
};

struct GateUpGroupedArgs {
  StepShape shape;
  Grouping grouping;
  Basis basis = Basis::kInvalid;
  absl::Span<const ExpertWeights> experts;  // [L]
  absl::Span<const float> rows;             // [capacity, H]
  absl::Span<float> out;                    // [capacity, 2C]
  StepCounters* counters = nullptr;
};

struct UnscatterArgs {
  StepShape shape;
  Grouping grouping;
  absl::Span<const float> rows;  // [capacity, 2C]
  absl::Span<float> out;         // [T*k, 2C]
};

struct ActivationArgs {
  StepShape shape;
  OwnedSlots owned;
  meshseal::Activation activation;
  absl::Span<const float> gate_up;  // [T*k, 2C]
  absl::Span<float> out;            // [T*k, C]
};

struct DownArgs {
  StepShape shape;
  OwnedSlots owned;
  Basis basis = Basis::kInvalid;            // what the activations are rounded to
  absl::Span<const ExpertWeights> experts;  // [L]
  absl::Span<const float> activations;      // [T*k, C]
  absl::Span<float> out;                    // [T*k, H]
  StepCounters* counters = nullptr;
};

struct CombineArgs {
  StepShape shape;
  OwnedSlots owned;
  absl::Span<const float> slots;  // [T*k, H]
  absl::Span<float> out;          // [T, H]
};

struct ResidualArgs {
  StepShape shape;
  absl::Span<const float> reduced;  // [T, H]
  absl::Span<const float> input;    // [T, H], the layer's
  absl::Span<float> out;            // [T, H]
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_BACKEND_STEP_ARGS_H_
