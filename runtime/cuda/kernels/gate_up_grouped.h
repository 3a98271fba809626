// Gate and up products of every grouped row that has a slot, with their biases. By lanes or as the reference, a row's
// products have the bits that gate_up gives them.
//
// Grid: a block for 8 rows and a few columns. Where the rows are of several experts, it does one after the other. Of
// tiles: grouped_tiles.h.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_GATE_UP_GROUPED_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_GATE_UP_GROUPED_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/cuda/kernels/device_matrix.h"
#include "runtime/cuda/kernels/product_kind.h"
#include "runtime/cuda/kernels/step_pods.h"
#include "schema/vocabularies.h"

namespace meshseal::cuda {

struct GateUpGroupedStep {
  StepGrid grid;
  DeviceGrouping grouping;
  Basis basis = Basis::kInvalid;
  const DeviceExpert* experts = nullptr;  // [L], in device memory
  const float* rows = nullptr;            // [capacity, H]
  float* out = nullptr;                   // [capacity, P]; rows with a slot are written
  uint32_t* computed = nullptr;           // [T*k], as of gate_up
  bool are_halves = false;                // gate and up of all experts AreHalves (tile_pieces.h); for tiles alone
};

// Errors as of LaunchRouterLogits.
cudaError_t LaunchGateUpGrouped(cudaStream_t stream, ProductKind kind, const GateUpGroupedStep& step);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_GATE_UP_GROUPED_H_
