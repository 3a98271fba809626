// gate_up and activation in one launch, with the same roundings: the bits that the two give one after the other.
//
// Grid: a block for a slot and a few columns; those of slots that are not owned exit. Products stay in shared memory.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_GATE_UP_ACTIVATION_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_GATE_UP_ACTIVATION_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/cuda/kernels/device_matrix.h"
#include "runtime/cuda/kernels/product_kind.h"
#include "runtime/cuda/kernels/step_pods.h"
#include "schema/rules.h"
#include "schema/vocabularies.h"

namespace meshseal::cuda {

struct GateUpActivationStep {
  StepGrid grid;
  DeviceOwned owned;
  bool weighs_input = false;
  bool weighs_activation = false;
  Basis basis = Basis::kInvalid;  // what x is rounded to, after it was weighed
  Activation rule;
  const DeviceExpert* experts = nullptr;  // [L], in device memory
  const float* x = nullptr;               // [T, H]
  float* out = nullptr;                   // [T*k, C]; owned rows are written
  uint32_t* computed = nullptr;           // [T*k], as of gate_up
};

// Errors as of LaunchRouterLogits.
cudaError_t LaunchGateUpActivation(cudaStream_t stream, ProductKind kind, const GateUpActivationStep& step);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_GATE_UP_ACTIVATION_H_
