// Gate and up products of every token with the rank's columns of the shared expert.
//
// Grid: a block for 8 tokens and a few columns. Of tiles: shared_tiles.h.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_SHARED_GATE_UP_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_SHARED_GATE_UP_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/cuda/kernels/device_matrix.h"
#include "runtime/cuda/kernels/product_kind.h"
#include "runtime/cuda/kernels/step_pods.h"
#include "schema/vocabularies.h"

namespace meshseal::cuda {

struct SharedGateUpStep {
  const StepTokens* tokens = nullptr;
  uint32_t max_tokens = 0;
  Basis basis = Basis::kInvalid;  // what x is rounded to
  DeviceMatrix gate;              // [S, H], or empty
  DeviceMatrix up;                // [S, H]; empty on a rank without columns
  const float* x = nullptr;       // [T, H]
  float* out = nullptr;           // [T, Q]
};

// Errors as of LaunchRouterLogits.
cudaError_t LaunchSharedGateUp(cudaStream_t stream, ProductKind kind, const SharedGateUpStep& step);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_SHARED_GATE_UP_H_
