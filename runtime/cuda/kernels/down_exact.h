// The down product of every owned slot of an exact sum: weighed, and fixed point by segments. Always of kind reference.
//
// Grid: a block for a slot and 64 columns of the hidden axis.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_DOWN_EXACT_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_DOWN_EXACT_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/cuda/kernels/device_matrix.h"
#include "runtime/cuda/kernels/step_pods.h"
#include "runtime/program/fixed_point.h"
#include "schema/vocabularies.h"

namespace meshseal::cuda {

// Failures are kBound with the addend's bits: of a slot first a word for each 32 of the hidden columns, then as many
// for the biases there. So the first in order is what the reference backend refuses first. Slots that are not owned
// have 0.
constexpr uint64_t DownExactFailures(uint32_t hidden) { return 2 * ((uint64_t{hidden} + 31) / 32); }

struct DownExactStep {
  StepGrid grid;
  DeviceOwned owned;
  bool weighs = false;
  bool adds_bias = false;
  Basis basis = Basis::kInvalid;
  runtime::FixedPoint fixed_point;
  const uint32_t* segment_ends = nullptr;  // [segments], in device memory; of the rank's own columns, the last is C
  uint32_t segments = 0;
  const DeviceExpert* experts = nullptr;  // [L], in device memory
  const float* activations = nullptr;     // [T*k, C]
  int64_t* out = nullptr;                 // [T*k, H]; owned rows are written
  uint64_t* failures = nullptr;           // [T*k, DownExactFailures]; all are written
  uint32_t* computed = nullptr;           // [T*k], as of gate_up
};

// Errors as of LaunchRouterLogits.
cudaError_t LaunchDownExact(cudaStream_t stream, const DownExactStep& step);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_DOWN_EXACT_H_
