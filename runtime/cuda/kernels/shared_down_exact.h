// The shared expert's row of every token of an exact sum: times its share, and fixed point by segments. Always of kind
// reference.
//
// Grid: a block for 8 tokens and 64 columns.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_SHARED_DOWN_EXACT_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_SHARED_DOWN_EXACT_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/cuda/kernels/device_matrix.h"
#include "runtime/cuda/kernels/step_pods.h"
#include "runtime/program/fixed_point.h"
#include "schema/vocabularies.h"

namespace meshseal::cuda {

// Failures are kBound of kSharedExpert with the addend's bits: a word for each 32 of the hidden columns.
constexpr uint64_t SharedDownExactFailures(uint32_t hidden) { return (uint64_t{hidden} + 31) / 32; }

struct SharedDownExactStep {
  const StepTokens* tokens = nullptr;
  uint32_t max_tokens = 0;
  uint32_t hidden = 0;
  Basis basis = Basis::kInvalid;
  runtime::FixedPoint fixed_point;
  const uint32_t* segment_ends = nullptr;  // [segments], in device memory; of the rank's own columns, the last is S
  uint32_t segments = 0;
  DeviceMatrix down;                   // [H, S], or empty
  const float* activations = nullptr;  // [T, S]
  const float* shares = nullptr;       // [T], of shared_gate; null without a gate
  int64_t* out = nullptr;              // [T, H]
  uint64_t* failures = nullptr;        // [T, SharedDownExactFailures]
};

// Errors as of LaunchRouterLogits.
cudaError_t LaunchSharedDownExact(cudaStream_t stream, const SharedDownExactStep& step);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_SHARED_DOWN_EXACT_H_
