// The rank's status lane of a step, and what follows from it.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_LANE_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_LANE_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/comm/lane_fields.h"
#include "runtime/cuda/kernels/step_pods.h"

namespace meshseal::cuda {

// Failure words of one step: of items (tokens or slots) in order, several to an item where several blocks own it.
struct FailureList {
  const uint64_t* words = nullptr;  // [items, words_per_item]
  uint32_t items_per_token = 0;     // 0: the words are of the step, one item
  uint32_t words_per_item = 1;
};

inline constexpr uint32_t kMaxFailureLists = 8;

// The rank's failure: the first of the lists in order, of it the lowest item. Of several words of that item the one of
// the lowest slot (kOutput), else the first.
struct LaneReport {
  runtime::StatusLane lane;  // with a failure: errors 1, and zeros but for drain
  uint64_t failure;
  uint32_t list;
  uint32_t item;
};
static_assert(sizeof(LaneReport) == 80);

struct LaneStep {
  const StepTokens* step = nullptr;
  uint32_t top_k = 0;
  const int32_t* experts = nullptr;    // [T*k], as `route` wrote them
  const float* weights = nullptr;      // [T*k]
  const uint32_t* computed = nullptr;  // [T*k]: 0 or 1
  uint32_t lists = 0;
  FailureList failures[kMaxFailureLists];
  const uint32_t* drain = nullptr;  // 1 where this rank was asked to end; null: 0
  LaneReport* report = nullptr;     // out
};

// One block.
cudaError_t LaunchLane(cudaStream_t stream, const LaneStep& step);

// A failed rank's addends: zeros in place of T * words_per_token words of 32 bits where the lane has an error.
struct ZeroOnErrorStep {
  const StepTokens* step = nullptr;
  uint32_t max_tokens = 0;
  uint64_t words_per_token = 0;
  const LaneReport* report = nullptr;
  uint32_t* words = nullptr;
};

cudaError_t LaunchZeroOnError(cudaStream_t stream, const ZeroOnErrorStep& step);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_LANE_H_
