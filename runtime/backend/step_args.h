// What each step reads and writes: spans into the rank's work arena and views of its weights.
//
// T tokens, k slots per token, H hidden, C the rank's own columns of the intermediate axis, P what gate and up give of
// them (2C: gate columns, then up columns; C of up alone where experts have no gate), S and Q the same of the rank's
// columns of the shared expert, E experts of the layer, L experts that this rank holds. Matrices are row-major without
// gaps. Token rows [T, H]; slot rows [T*k, ...], slot = token*k + j; grouped rows [capacity, ...]. Sizes are checked by
// whoever makes the args: the executor.
//
// The routing weight is multiplied in by exactly one step of a program: the one whose `weighs` is true.
//
// Of an exact sum, outputs of experts become fixed point segment by segment, where they are made. An addend is made
// once for each segment of the columns, and so does not follow from who computes which of them: the float32 product
// of the segment, times the weight or gate, in float32; of the down bias one more.
#ifndef MESHSEAL_RUNTIME_BACKEND_STEP_ARGS_H_
#define MESHSEAL_RUNTIME_BACKEND_STEP_ARGS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "runtime/program/fixed_point.h"
#include "runtime/program/rank_facts.h"
#include "runtime/weights/rank_weights.h"
#include "runtime/weights/weight_matrix.h"
#include "schema/plan.h"
#include "schema/terms.h"

namespace meshseal::runtime {

struct StepShape {
  uint64_t first_token = 0;  // the caller's number of token 0
  uint32_t tokens = 0;       // T
  uint32_t top_k = 0;        // k
  uint32_t hidden = 0;       // H
  uint32_t columns = 0;      // C
  bool gated = true;         // the experts have a gate
  uint64_t slots() const { return uint64_t{tokens} * top_k; }
  uint64_t products() const { return uint64_t{columns} * (gated ? 2 : 1); }  // P
};

// Which expert each slot goes to, and with what weight. [T*k] each.
struct Routing {
  absl::Span<const int32_t> experts;
  absl::Span<const float> weights;
};

// The slots that this rank computes, grouped by local expert.
struct Grouping {
  absl::Span<const int32_t> slot_of_row;  // [capacity]; -1 for a row without a slot
  absl::Span<const int32_t> row_of_slot;  // [T*k]; -1 for a slot of another rank
  absl::Span<const int32_t> first_row;    // [L + 1]; rows of local expert e are [first_row[e], first_row[e + 1])
};

// The owner view that every step of a program shares: the routing, and which rank computes a slot.
struct OwnedSlots {
  Routing routing;
  absl::Span<const ExpertPlace> places;  // [E]
  uint64_t first_token = 0;              // as in StepShape
  uint32_t top_k = 1;

  // The local expert that computes a slot; -1 for a slot of another rank.
  int32_t LocalExpert(uint64_t slot) const {
    return places[static_cast<size_t>(routing.experts[slot])].LocalFor(first_token + slot / top_k);
  }
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
  WeightMatrix bias;            // [1, E], added to the logits; empty where the layer has none
  WeightMatrix selection_bias;  // [1, E], added to what is compared, not to the weights; likewise
  absl::Span<const float> x;    // [T, H]
  absl::Span<int32_t> experts;  // out [T*k]
  absl::Span<float> weights;    // out [T*k]
};

struct RouteByTableArgs {
  StepShape shape;
  Router router;
  WeightMatrix weight;                  // [E, H]
  WeightMatrix bias;                    // [1, E], as above
  WeightMatrix table;                   // [V, k]: the experts of each token id
  absl::Span<const float> x;            // [T, H]
  absl::Span<const int32_t> token_ids;  // [T]
  absl::Span<int32_t> experts;          // out [T*k]
  absl::Span<float> weights;            // out [T*k]
};

struct RouteGivenArgs {
  StepShape shape;
  uint32_t layer_experts = 0;   // E
  Routing given;                // by the caller
  absl::Span<int32_t> experts;  // out [T*k]
  absl::Span<float> weights;    // out [T*k]
};

struct ScatterArgs {
  StepShape shape;
  OwnedSlots owned;
  bool weighs = false;
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
  bool weighs = false;
  Basis basis = Basis::kInvalid;            // what x is rounded to, after it was weighed
  absl::Span<const ExpertWeights> experts;  // [L]
  absl::Span<const float> x;                // [T, H]
  absl::Span<float> out;                    // [T*k, P]
  StepCounters* counters = nullptr;
};

struct GateUpGroupedArgs {
  StepShape shape;
  Grouping grouping;
  Basis basis = Basis::kInvalid;
  absl::Span<const ExpertWeights> experts;  // [L]
  absl::Span<const float> rows;             // [capacity, H]
  absl::Span<float> out;                    // [capacity, P]
  StepCounters* counters = nullptr;
};

struct UnscatterArgs {
  StepShape shape;
  Grouping grouping;
  absl::Span<const float> rows;  // [capacity, P]
  absl::Span<float> out;         // [T*k, P]
};

struct ActivationArgs {
  StepShape shape;
  OwnedSlots owned;
  bool weighs = false;
  meshseal::Activation activation;
  absl::Span<const float> gate_up;  // [T*k, P]
  absl::Span<float> out;            // [T*k, C]
};

struct DownArgs {
  StepShape shape;
  OwnedSlots owned;
  bool adds_bias = false;                   // on tp coordinate 0: the tp ranks' rows are addends
  Basis basis = Basis::kInvalid;            // what the activations are rounded to
  absl::Span<const ExpertWeights> experts;  // [L]
  absl::Span<const float> activations;      // [T*k, C]
  absl::Span<float> out;                    // [T*k, H]
  StepCounters* counters = nullptr;
};

struct DownExactArgs {
  StepShape shape;
  OwnedSlots owned;
  bool weighs = false;
  bool adds_bias = false;
  Basis basis = Basis::kInvalid;
  FixedPoint fixed_point;
  absl::Span<const uint32_t> segment_ends;  // of the rank's own columns; the last is C
  absl::Span<const ExpertWeights> experts;  // [L]
  absl::Span<const float> activations;      // [T*k, C]
  absl::Span<int64_t> out;                  // [T*k, H]
  StepCounters* counters = nullptr;
};

struct SharedGateUpArgs {
  StepShape shape;
  Basis basis = Basis::kInvalid;  // what x is rounded to
  SharedWeights shared;
  absl::Span<const float> x;  // [T, H]
  absl::Span<float> out;      // [T, Q]
};

struct SharedActivationArgs {
  StepShape shape;
  uint32_t shared_columns = 0;  // S
  meshseal::Activation activation;
  absl::Span<const float> gate_up;  // [T, Q]
  absl::Span<float> out;            // [T, S]
};

struct SharedDownArgs {
  StepShape shape;
  Basis basis = Basis::kInvalid;  // what the activations are rounded to
  SharedWeights shared;
  absl::Span<const float> activations;  // [T, S]
  absl::Span<const float> x;            // [T, H], what the shared expert's own gate reads
  absl::Span<float> out;                // [T, H]
};

struct SharedDownExactArgs {
  StepShape shape;
  Basis basis = Basis::kInvalid;
  FixedPoint fixed_point;
  absl::Span<const uint32_t> segment_ends;  // of the rank's own columns; the last is S
  SharedWeights shared;
  absl::Span<const float> activations;  // [T, S]
  absl::Span<const float> x;            // [T, H]
  absl::Span<int64_t> out;              // [T, H]
};

struct CombineArgs {
  StepShape shape;
  OwnedSlots owned;
  bool weighs = false;
  absl::Span<const float> slots;  // [T*k, H]
  absl::Span<float> out;          // [T, H]
};

struct CombineSharedArgs {
  CombineArgs combine;
  absl::Span<const float> shared;  // [T, H]
};

struct CombineExactArgs {
  StepShape shape;
  OwnedSlots owned;
  absl::Span<const int64_t> slots;  // [T*k, H]
  absl::Span<int64_t> out;          // [T, H]
};

struct CombineSharedExactArgs {
  CombineExactArgs combine;
  absl::Span<const int64_t> shared;  // [T, H]
};

struct ResidualArgs {
  StepShape shape;
  absl::Span<const float> reduced;  // [T, H]
  absl::Span<const float> input;    // [T, H], the layer's
  absl::Span<float> out;            // [T, H]
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_BACKEND_STEP_ARGS_H_
