// residual: the reduced rows plus the layer's input, of the tokens that are the rank's own.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_RESIDUAL_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_RESIDUAL_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/cuda/kernels/step_pods.h"

namespace meshseal::cuda {

struct ResidualStep {
  const StepTokens* own = nullptr;  // how many tokens the rank brings and gets back
  uint32_t max_tokens = 0;
  uint32_t hidden = 0;
  const float* reduced = nullptr;  // [T, H]
  const float* input = nullptr;    // [T, H]
  float* out = nullptr;            // [T, H]
};

cudaError_t LaunchResidual(cudaStream_t stream, const ResidualStep& step);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_RESIDUAL_H_
