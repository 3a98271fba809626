// Gate and up products of every owned slot, with their biases.
//
// Grid: a block for a slot and a few columns; those of slots that are not owned exit.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_GATE_UP_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_GATE_UP_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/cuda/kernels/device_matrix.h"
#include "runtime/cuda/kernels/product_kind.h"
#include "runtime/cuda/kernels/step_pods.h"
#include "schema/vocabularies.h"

namespace meshseal::cuda {

struct GateUpStep {
  StepGrid grid;
  DeviceOwned owned;
  bool weighs = false;
  Basis basis = Basis::kInvalid;          // what x is rounded to, after it was weighed
  const DeviceExpert* experts = nullptr;  // [L], in device memory
  const float* x = nullptr;               // [T, H]
  float* out = nullptr;                   // [T*k, P]; owned rows are written
  uint32_t* computed = nullptr;           // [T*k]; 1 for owned slots, others stay; null: not marked
};

// Errors as of LaunchRouterLogits.
cudaError_t LaunchGateUp(cudaStream_t stream, ProductKind kind, const GateUpStep& step);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_GATE_UP_H_
