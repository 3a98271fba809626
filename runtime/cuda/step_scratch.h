// What the kernels of a step need beside the values of its program: their parameters, failures and intermediate
// results.
#ifndef MESHSEAL_RUNTIME_CUDA_STEP_SCRATCH_H_
#define MESHSEAL_RUNTIME_CUDA_STEP_SCRATCH_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "runtime/cuda/kernels/lane.h"
#include "runtime/cuda/kernels/rank_order_sum.h"
#include "runtime/cuda/kernels/step_pods.h"
#include "runtime/program/rank_program.h"

namespace meshseal::cuda {

// Of one run, written by the host before it.
struct StepParameters {
  StepTokens tokens;
  StepTokens own;      // those that the rank brings and gets back
  uint32_t drain = 0;  // 1: this rank was asked to end
  uint32_t reserved = 0;
  runtime::Piece sum;   // the elements of a sum that this rank makes: of all tokens, or its own piece
  runtime::Piece rows;  // the elements that it hands on
  runtime::Piece lane;  // the words of a status lane
};

// Places in one block of device memory, the same for every program: each is as large as the largest one needs.
struct StepScratch {
  StepParameters* parameters = nullptr;
  runtime::Piece* groups = nullptr;  // [dense groups]: the tokens of each, where they are gathered
  LaneReport* report = nullptr;
  runtime::StatusLane* lanes = nullptr;  // [G]
  float* logits = nullptr;               // [T, E]
  float* shares = nullptr;               // [T]
  uint32_t* computed = nullptr;          // [T*k]
  uint64_t* route_failures = nullptr;    // [T]
  uint64_t* scatter_failure = nullptr;   // [1]
  uint64_t* output_failures = nullptr;   // [T, chunks] of combine, or [T*k, ...] of an exact down
  uint64_t* shared_failures = nullptr;   // [T, ...], likewise
  int32_t* local_of_slot = nullptr;      // [T*k]
  uint32_t* counts = nullptr;            // [L]
  int32_t* slot_of_row = nullptr;        // [capacity], of the grouping
  int32_t* first_row = nullptr;          // [L + 1], likewise
};

// The places from `block` on (null: only how many bytes they take), for `programs` of a group of `ranks`.
struct PlacedScratch {
  StepScratch scratch;
  uint64_t bytes = 0;
};
PlacedScratch PlaceScratch(absl::Span<const runtime::RankProgram* const> programs, uint32_t ranks, std::byte* block);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_STEP_SCRATCH_H_
