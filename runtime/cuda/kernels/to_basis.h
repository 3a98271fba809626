// Rows rounded to a basis, as runtime/backend/basis.h says; and a layer's output.
//
// A warp owns 32 neighbouring elements of a row: a block of q8.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_TO_BASIS_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_TO_BASIS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/cuda/kernels/step_pods.h"
#include "schema/vocabularies.h"

namespace meshseal::cuda {

struct ToBasisStep {
  const StepTokens* step = nullptr;
  uint32_t max_tokens = 0;
  uint32_t rows_per_token = 1;    // k for slot rows
  uint64_t width = 0;             // of a row
  DeviceOwned owned;              // of slot rows those of other ranks are left alone; without experts: all rows
  Basis basis = Basis::kInvalid;  // not rotated
  const float* in = nullptr;      // [T * rows_per_token, width]
  float* out = nullptr;           // the same; may be `in`
};

cudaError_t LaunchToBasis(cudaStream_t stream, const ToBasisStep& step);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_TO_BASIS_H_
