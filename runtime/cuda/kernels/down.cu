#include "runtime/cuda/kernels/block_grid.h"
#include "runtime/cuda/kernels/block_product.h"
#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/down.h"

namespace meshseal::cuda {
namespace {

template <ProductKind kind>
__global__ void DownKernel(DownStep step) {
  using Shape = SlotShape<kind>;
  const StepGrid& grid = step.grid;
  const BlockPart part(RowTiles::Of<Shape>(grid.hidden, 0));
  const StepTokens tokens = *grid.step;
  const uint64_t slot = part.group;
  if (slot >= uint64_t{tokens.tokens} * grid.top_k) return;
  const int32_t local = step.owned.LocalExpert(slot, tokens, grid.top_k);
  if (local < 0) return;
  const DeviceExpert& expert = step.experts[local];
  const bool adds_bias = step.adds_bias && !expert.down_bias.empty();
  const float* const activations = step.activations + slot * grid.columns;
  float* const out = step.out + slot * grid.hidden;
  if (step.computed != nullptr && part.is_first && threadIdx.x == 0) step.computed[slot] = 1;
  BlockProduct<Shape>(
      expert.down, part.tile * Shape::kRows, step.basis, 1,
      [&](uint32_t, uint32_t column) { return activations[column]; },
      [&](uint32_t, uint32_t row, float product) {
        out[row] = adds_bias ? product + ReadVector(expert.down_bias, row) : product;
      });
}

template <ProductKind kind>
cudaError_t LaunchOf(cudaStream_t stream, const DownStep& step) {
  using Shape = SlotShape<kind>;
  const StepGrid& grid = step.grid;
  return LaunchParts(stream, &DownKernel<kind>, grid.max_slots(), RowTiles::Of<Shape>(grid.hidden, 0), Shape::kThreads,
                     step);
}

}  // namespace

cudaError_t LaunchDown(cudaStream_t stream, ProductKind kind, const DownStep& step) {
  return kind == ProductKind::kReference ? LaunchOf<ProductKind::kReference>(stream, step)
                                         : LaunchOf<ProductKind::kLanes>(stream, step);
}

}  // namespace meshseal::cuda
