// The down product of every owned slot, plus its bias.
//
// Grid: a block for a slot and a few columns; those of slots that are not owned exit. Of tiles: grouped_tiles.h.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_DOWN_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_DOWN_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/cuda/kernels/device_matrix.h"
#include "runtime/cuda/kernels/product_kind.h"
#include "runtime/cuda/kernels/step_pods.h"
#include "schema/vocabularies.h"

namespace meshseal::cuda {

struct DownStep {
  StepGrid grid;
  DeviceOwned owned;
  bool adds_bias = false;
  Basis basis = Basis::kInvalid;          // what the activations are rounded to
  const DeviceExpert* experts = nullptr;  // [L], in device memory
  const float* activations = nullptr;     // [T*k, C]
  float* out = nullptr;                   // [T*k, H]; owned rows are written
  uint32_t* computed = nullptr;           // [T*k], as of gate_up
  DeviceGrouping grouping;                // of the owned slots; for tiles alone
  bool are_halves = false;                // down of all experts AreHalves (tile_pieces.h); likewise
};

// Errors as of LaunchRouterLogits.
cudaError_t LaunchDown(cudaStream_t stream, ProductKind kind, const DownStep& step);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_DOWN_H_
