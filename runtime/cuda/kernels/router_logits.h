// The router's scores of every token: its product, plus the bias, rounded to the router's basis. Whether they are
// finite is route's to say.
//
// Grid: a block for 8 tokens and a few experts.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_ROUTER_LOGITS_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_ROUTER_LOGITS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/cuda/kernels/device_matrix.h"
#include "runtime/cuda/kernels/product_kind.h"
#include "runtime/cuda/kernels/step_pods.h"
#include "schema/vocabularies.h"

namespace meshseal::cuda {

struct RouterLogitsStep {
  const StepTokens* tokens = nullptr;
  uint32_t max_tokens = 0;
  DeviceMatrix weight;            // [E, H]
  DeviceMatrix bias;              // [1, E], or empty
  Basis basis = Basis::kInvalid;  // f32 or bf16
  const float* x = nullptr;       // [T, H]
  float* logits = nullptr;        // out [T, E]
};

// Errors: those of a launch; cudaErrorInvalidConfiguration for more blocks than a grid has.
cudaError_t LaunchRouterLogits(cudaStream_t stream, ProductKind kind, const RouterLogitsStep& step);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_ROUTER_LOGITS_H_
