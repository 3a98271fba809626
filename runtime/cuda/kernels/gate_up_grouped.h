// Gate and up products of every grouped row that has a slot, with their biases. A row's products have the bits that
// gate_up gives them.
//
// Grid: a block for 8 rows and a few columns. Where the rows are of several experts, it does one after the other.
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
  uint32_t capacity = 0;                 // grouped rows
  uint32_t local_experts = 0;            // L
  const int32_t* slot_of_row = nullptr;  // as in Grouping of runtime/backend/step_args.h
  const int32_t* first_row = nullptr;    // [L + 1]
  Basis basis = Basis::kInvalid;
  const DeviceExpert* experts = nullptr;  // [L], in device memory
  const float* rows = nullptr;            // [capacity, H]
  float* out = nullptr;                   // [capacity, P]; rows with a slot are written
  uint32_t* computed = nullptr;           // [T*k], as of gate_up
};

// Errors as of LaunchRouterLogits.
cudaError_t LaunchGateUpGrouped(cudaStream_t stream, ProductKind kind, const GateUpGroupedStep& step);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_GATE_UP_GROUPED_H_
