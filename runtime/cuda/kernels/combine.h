// combine and combine_shared: the sum over each token's owned slots, in slot order, then the shared expert's row; and
// their exact forms, sums of integers.
//
// A block owns a chunk of kCombineChunk features of one token, a thread one of them.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_COMBINE_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_COMBINE_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/cuda/kernels/step_pods.h"

namespace meshseal::cuda {

inline constexpr uint32_t kCombineChunk = 256;

// Failure words of each token.
constexpr uint32_t CombineChunks(uint32_t hidden) { return (hidden + kCombineChunk - 1) / kCombineChunk; }

// Failures: kOutput, of the first slot in order that is not finite in the chunk. Those of the shared expert's row name
// kSharedExpert and have words of their own, as they come after those of all tokens.
struct CombineStep {
  StepGrid grid;
  DeviceOwned owned;
  bool weighs = false;
  const float* slots = nullptr;         // [T*k, H]
  const float* shared = nullptr;        // [T, H]; null where there is no shared expert
  float* out = nullptr;                 // [T, H]
  uint64_t* failures = nullptr;         // [T, chunks]
  uint64_t* shared_failures = nullptr;  // [T, chunks]; null likewise
};

cudaError_t LaunchCombine(cudaStream_t stream, const CombineStep& step);

struct CombineExactStep {
  StepGrid grid;
  DeviceOwned owned;
  const int64_t* slots = nullptr;   // [T*k, H]
  const int64_t* shared = nullptr;  // [T, H]; null where there is no shared expert
  int64_t* out = nullptr;           // [T, H]
};

cudaError_t LaunchCombineExact(cudaStream_t stream, const CombineExactStep& step);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_COMBINE_H_
