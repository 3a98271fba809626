// activation and shared_activation: gate and up columns to activations, by the rules of numerics/activation_value.h.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_ACTIVATION_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_ACTIVATION_H_

#include <cuda_runtime_api.h>

#include "runtime/cuda/kernels/step_pods.h"
#include "schema/rules.h"

namespace meshseal::cuda {

struct ActivationStep {
  StepGrid grid;
  DeviceOwned owned;
  bool weighs = false;
  Activation rule;
  const float* gate_up = nullptr;  // [T*k, P]
  float* out = nullptr;            // [T*k, C], of owned slots
};

cudaError_t LaunchActivation(cudaStream_t stream, const ActivationStep& step);

// Of every token, whether or not the rank computes a slot of it. grid.columns are the rank's own of the shared expert,
// grid.gated is of its rule; grid.top_k is not read.
struct SharedActivationStep {
  StepGrid grid;
  Activation rule;
  const float* gate_up = nullptr;  // [T, Q]
  float* out = nullptr;            // [T, S]
};

cudaError_t LaunchSharedActivation(cudaStream_t stream, const SharedActivationStep& step);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_ACTIVATION_H_
