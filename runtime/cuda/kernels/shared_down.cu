#include "runtime/cuda/kernels/block_grid.h"
#include "runtime/cuda/kernels/block_product.h"
#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/shared_down.h"
#include "runtime/cuda/kernels/shared_tiles.h"

namespace meshseal::cuda {
namespace {

template <ProductKind kind>
__global__ void SharedDownKernel(SharedDownStep step) {
  using Shape = SharedShape<kind>;
  const BlockPart part(RowTiles::Of<Shape>(step.hidden, 0));
  const uint32_t live = LiveOperands(part.group, Shape::kOperands, step.tokens->tokens);
  if (live == 0) return;
  const uint64_t token = uint64_t{part.group} * Shape::kOperands;
  if (step.down.empty()) {
    for (uint32_t i = threadIdx.x; i < live * Shape::kRows; i += Shape::kThreads) {
      const uint32_t row = part.tile * Shape::kRows + i % Shape::kRows;
      if (row < step.hidden) step.out[(token + i / Shape::kRows) * step.hidden + row] = 0;
    }
    return;
  }
  BlockProduct<Shape>(
      step.down, part.tile * Shape::kRows, step.basis, live,
      [&](uint32_t operand, uint32_t column) {
        return step.activations[(token + operand) * step.down.columns + column];
      },
      [&](uint32_t operand, uint32_t row, float product) {
        step.out[(token + operand) * step.hidden + row] =
            step.shares == nullptr ? product : product * step.shares[token + operand];
      });
}

template <ProductKind kind>
cudaError_t LaunchOf(cudaStream_t stream, const SharedDownStep& step) {
  using Shape = SharedShape<kind>;
  return LaunchParts(stream, &SharedDownKernel<kind>, GroupsOf(step.max_tokens, Shape::kOperands),
                     RowTiles::Of<Shape>(step.hidden, 0), Shape::kThreads, step);
}

}  // namespace

cudaError_t LaunchSharedDown(cudaStream_t stream, ProductKind kind, const SharedDownStep& step) {
  if (kind == ProductKind::kTiles && !step.down.empty()) return LaunchSharedTiles(stream, step);
  // Zeros are of no kind.
  if (kind == ProductKind::kTiles) return LaunchOf<ProductKind::kLanes>(stream, step);
  return LaunchByKind(kind, [&](auto chosen) { return LaunchOf<decltype(chosen)::value>(stream, step); });
}

}  // namespace meshseal::cuda
