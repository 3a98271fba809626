#include "runtime/cuda/kernels/block_grid.h"
#include "runtime/cuda/kernels/block_product.h"
#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/router_logits.h"

namespace meshseal::cuda {
namespace {

// Few rows, and at decode one token: small blocks, so that many of them share the work.
template <ProductKind kind>
using Shape = BlockShape<kind, 8, kind == ProductKind::kReference ? 1 : 4, kind == ProductKind::kReference ? 32 : 1>;

template <ProductKind kind>
__global__ void RouterLogitsKernel(RouterLogitsStep step) {
  using S = Shape<kind>;
  const DeviceMatrix& weight = step.weight;
  const BlockPart part(RowTiles::Of<S>(weight.rows, 0));
  const uint32_t live = LiveOperands(part.group, S::kOperands, step.tokens->tokens);
  if (live == 0) return;
  const uint64_t token = uint64_t{part.group} * S::kOperands;
  BlockProduct<S>(
      weight, part.tile * S::kRows, step.basis, live,
      [&](uint32_t operand, uint32_t column) { return step.x[(token + operand) * weight.columns + column]; },
      [&](uint32_t operand, uint32_t expert, float product) {
        const float logit = step.bias.empty() ? product : product + ReadVector(step.bias, expert);
        step.logits[(token + operand) * weight.rows + expert] = runtime::RoundedTo(step.basis, logit);
      });
}

template <ProductKind kind>
cudaError_t LaunchOf(cudaStream_t stream, const RouterLogitsStep& step) {
  using S = Shape<kind>;
  return LaunchParts(stream, &RouterLogitsKernel<kind>, GroupsOf(step.max_tokens, S::kOperands),
                     RowTiles::Of<S>(step.weight.rows, 0), S::kThreads, step);
}

}  // namespace

cudaError_t LaunchRouterLogits(cudaStream_t stream, ProductKind kind, const RouterLogitsStep& step) {
  return LaunchByKind(kind, [&](auto chosen) { return LaunchOf<decltype(chosen)::value>(stream, step); });
}

}  // namespace meshseal::cuda
