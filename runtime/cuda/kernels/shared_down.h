// The shared expert's row of every token, times the share that its own gate gives it; zeros on a rank without columns
// of it.
//
// Grid: a block for 8 tokens and a few columns. Of tiles: shared_tiles.h.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_SHARED_DOWN_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_SHARED_DOWN_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/cuda/kernels/device_matrix.h"
#include "runtime/cuda/kernels/product_kind.h"
#include "runtime/cuda/kernels/step_pods.h"
#include "schema/vocabularies.h"

namespace meshseal::cuda {

struct SharedDownStep {
  const StepTokens* tokens = nullptr;
  uint32_t max_tokens = 0;
  uint32_t hidden = 0;
  Basis basis = Basis::kInvalid;       // what the activations are rounded to
  DeviceMatrix down;                   // [H, S], or empty
  const float* activations = nullptr;  // [T, S]
  const float* shares = nullptr;       // [T], of shared_gate; null without a gate
  float* out = nullptr;                // [T, H]
};

// Errors as of LaunchRouterLogits.
cudaError_t LaunchSharedDown(cudaStream_t stream, ProductKind kind, const SharedDownStep& step);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_SHARED_DOWN_H_
