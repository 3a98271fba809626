#include "runtime/cuda/kernels/combine.h"
#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/launch.h"

namespace meshseal::cuda {
namespace {

constexpr uint32_t kWarps = kCombineChunk / kWarpLanes;

// What a block, or one thread of it, found not to be finite.
struct Refused {
  uint32_t slot;    // the lowest, counted from the token's first; top_k: none
  uint32_t shared;  // 0: the shared expert's row
};

// Of the block, on every thread. Every thread calls it, once.
MESHSEAL_DEVICE Refused OfBlock(Refused of_thread) {
  MESHSEAL_SHARED(of_warps, Refused[kWarps]);
  const Refused of_warp{WarpMin(of_thread.slot), WarpMin(of_thread.shared)};
  if (Lane() == 0) of_warps[Warp()] = of_warp;
  __syncthreads();
  Refused found = of_warp;
  for (uint32_t warp = 0; warp < kWarps; ++warp) {
    found.slot = of_warps[warp].slot < found.slot ? of_warps[warp].slot : found.slot;
    found.shared = of_warps[warp].shared < found.shared ? of_warps[warp].shared : found.shared;
  }
  return found;
}

__global__ void CombineKernel(CombineStep step) {
  const uint64_t token = GridRow();
  const uint64_t h = GridColumn();
  const StepTokens tokens = *step.grid.step;
  if (token >= tokens.tokens) return;
  const uint32_t top_k = step.grid.top_k;
  const bool there = h < step.grid.hidden;
  Refused refused{top_k, 1};
  float sum = 0;
  for (uint32_t j = 0; there && j < top_k; ++j) {
    const uint64_t slot = token * top_k + j;
    if (step.owned.LocalExpertFor(slot, tokens.first_token + token) < 0) continue;
    const float addend = step.slots[slot * step.grid.hidden + h];
    if (!IsFinite(addend) && refused.slot == top_k) refused.slot = j;
    sum = fmaf(step.weighs ? step.owned.weights[slot] : 1, addend, sum);
  }
  if (there && step.shared != nullptr) {
    const float addend = step.shared[token * step.grid.hidden + h];
    refused.shared = IsFinite(addend) ? 1 : 0;
    sum += addend;
  }
  if (there) step.out[token * step.grid.hidden + h] = sum;

  refused = OfBlock(refused);
  if (threadIdx.x != 0) return;
  const uint64_t place = token * gridDim.y + blockIdx.y;
  uint64_t failure = 0;
  if (refused.slot < top_k) {
    const auto expert = static_cast<uint32_t>(step.owned.experts[token * top_k + refused.slot]);
    failure = FailureWord(FailureKind::kOutput, expert, refused.slot);
  }
  step.failures[place] = failure;
  if (step.shared == nullptr) return;
  step.shared_failures[place] = refused.shared == 0 ? FailureWord(FailureKind::kOutput, kSharedExpert, 0) : 0;
}

__global__ void CombineExactKernel(CombineExactStep step) {
  const uint64_t token = GridRow();
  const uint64_t h = GridColumn();
  const StepTokens tokens = *step.grid.step;
  if (token >= tokens.tokens || h >= step.grid.hidden) return;
  int64_t sum = step.shared == nullptr ? 0 : step.shared[token * step.grid.hidden + h];
  for (uint32_t j = 0; j < step.grid.top_k; ++j) {
    const uint64_t slot = token * step.grid.top_k + j;
    if (step.owned.LocalExpertFor(slot, tokens.first_token + token) < 0) continue;
    sum += step.slots[slot * step.grid.hidden + h];
  }
  step.out[token * step.grid.hidden + h] = sum;
}

}  // namespace

cudaError_t LaunchCombine(cudaStream_t stream, const CombineStep& step) {
  return Launch(stream, CombineKernel, GridOfRows(step.grid.max_tokens, step.grid.hidden, kCombineChunk),
                dim3(kCombineChunk), 0, step);
}

cudaError_t LaunchCombineExact(cudaStream_t stream, const CombineExactStep& step) {
  return Launch(stream, CombineExactKernel, GridOfRows(step.grid.max_tokens, step.grid.hidden, kCombineChunk),
                dim3(kCombineChunk), 0, step);
}

}  // namespace meshseal::cuda
