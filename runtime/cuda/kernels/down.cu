#include "runtime/cuda/kernels/block_grid.h"
#include "runtime/cuda/kernels/block_product.h"
#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/down.h"
#include "runtime/cuda/kernels/grouped_tiles.h"

namespace meshseal::cuda {
namespace {

template <ProductKind kind>
__global__ void DownKernel(DownStep step) {
  using Shape = SlotShape<kind>;
  const StepGrid& grid = step.grid;
  const BlockPart part(RowTiles::Of<Shape>(grid.hidden, 0));
  const uint64_t slot = part.group;
  const int32_t local = part.LocalExpert(grid, step.owned, step.computed);
  if (local < 0) return;
  const DeviceExpert& expert = step.experts[local];
  const bool adds_bias = step.adds_bias && !expert.down_bias.empty();
  const float* const activations = step.activations + slot * grid.columns;
  float* const out = step.out + slot * grid.hidden;
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
  if (kind == ProductKind::kTiles) return LaunchGroupedTiles(stream, step);
  return LaunchByKind(kind, [&](auto chosen) { return LaunchOf<decltype(chosen)::value>(stream, step); });
}

}  // namespace meshseal::cuda
