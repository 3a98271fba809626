// What the shared expert's own gate makes of every token: the sigmoid of its product with x, unrounded.
//
// Grid: a warp for 8 tokens.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_SHARED_GATE_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_SHARED_GATE_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/cuda/kernels/device_matrix.h"
#include "runtime/cuda/kernels/product_kind.h"
#include "runtime/cuda/kernels/step_pods.h"

namespace meshseal::cuda {

struct SharedGateStep {
  const StepTokens* tokens = nullptr;
  uint32_t max_tokens = 0;
  DeviceMatrix expert_gate;  // [1, H]
  const float* x = nullptr;  // [T, H]
  float* shares = nullptr;   // out [T]
};

// Errors as of LaunchRouterLogits.
cudaError_t LaunchSharedGate(cudaStream_t stream, ProductKind kind, const SharedGateStep& step);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_SHARED_GATE_H_
