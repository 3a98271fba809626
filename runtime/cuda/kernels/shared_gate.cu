#include "runtime/cuda/kernels/block_grid.h"
#include "runtime/cuda/kernels/block_product.h"
#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/shared_gate.h"
#include "runtime/numerics/router_scores.h"

namespace meshseal::cuda {
namespace {

// One row: one warp.
template <ProductKind kind>
using Shape = BlockShape<kind, 8, 1, kind == ProductKind::kReference ? 32 : 1>;

template <ProductKind kind>
__global__ void SharedGateKernel(SharedGateStep step) {
  using S = Shape<kind>;
  const uint32_t live = LiveOperands(blockIdx.x, S::kOperands, step.tokens->tokens);
  if (live == 0) return;
  const uint64_t token = uint64_t{blockIdx.x} * S::kOperands;
  BlockProduct<S>(
      step.expert_gate, 0, Basis::kF32, live,
      [&](uint32_t operand, uint32_t column) { return step.x[(token + operand) * step.expert_gate.columns + column]; },
      [&](uint32_t operand, uint32_t, float product) {
        step.shares[token + operand] = static_cast<float>(runtime::Sigmoid(double{product}));
      });
}

template <ProductKind kind>
cudaError_t LaunchOf(cudaStream_t stream, const SharedGateStep& step) {
  using S = Shape<kind>;
  return LaunchParts(stream, &SharedGateKernel<kind>, GroupsOf(step.max_tokens, S::kOperands), RowTiles{1, 0},
                     S::kThreads, step);
}

}  // namespace

cudaError_t LaunchSharedGate(cudaStream_t stream, ProductKind kind, const SharedGateStep& step) {
  return LaunchByKind(kind, [&](auto chosen) { return LaunchOf<decltype(chosen)::value>(stream, step); });
}

}  // namespace meshseal::cuda
