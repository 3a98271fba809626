// scatter: token rows to rows grouped by local expert, each group padded to whole tiles, ascending by slot inside a
// group.
//
// One warp for each local expert scans all slots in order: what it finds is counted, then placed, so no order depends
// on when what runs. Grouping arrays as in runtime/backend/step_args.h.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_SCATTER_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_SCATTER_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/cuda/kernels/step_pods.h"

namespace meshseal::cuda {

struct ScatterStep {
  StepGrid grid;
  DeviceOwned owned;
  bool weighs = false;         // whether a row is multiplied with its slot's weight
  uint32_t local_experts = 0;  // L
  uint32_t tile_rows = 1;
  uint32_t capacity = 0;     // rows that the plan proves
  const float* x = nullptr;  // [T, H]

  float* rows = nullptr;           // out [capacity, H]
  int32_t* slot_of_row = nullptr;  // out [capacity]
  int32_t* row_of_slot = nullptr;  // out [T*k]
  int32_t* first_row = nullptr;    // out [L + 1]
  uint64_t* failure = nullptr;     // out, one word

  int32_t* local_of_slot = nullptr;  // of the step alone: [max_tokens*k]
  uint32_t* counts = nullptr;        // of the step alone: [L]
};

// Failure: kGroupedRows, whose step has no rows at all.
cudaError_t LaunchScatter(cudaStream_t stream, const ScatterStep& step);

// The rows of owned slots back to slot rows.
struct UnscatterStep {
  StepGrid grid;
  const int32_t* row_of_slot = nullptr;  // [T*k]
  uint64_t width = 0;                    // of a row
  const float* rows = nullptr;           // [capacity, width]
  float* out = nullptr;                  // [T*k, width]
};

cudaError_t LaunchUnscatter(cudaStream_t stream, const UnscatterStep& step);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_SCATTER_H_
