#include "runtime/cuda/kernels/block_grid.h"
#include "runtime/cuda/kernels/block_product.h"
#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/gate_up.h"

namespace meshseal::cuda {
namespace {

template <ProductKind kind>
__global__ void GateUpKernel(GateUpStep step) {
  using Shape = SlotShape<kind>;
  const StepGrid& grid = step.grid;
  const BlockPart part(RowTiles::Of<Shape>(grid.gated ? grid.columns : 0, grid.columns));
  const uint64_t slot = part.group;
  const int32_t local = part.LocalExpert(grid, step.owned, step.computed);
  if (local < 0) return;
  const DeviceExpert& expert = step.experts[local];
  const DeviceMatrix& bias = part.is_second ? expert.up_bias : expert.gate_bias;
  const float* const x = step.x + slot / grid.top_k * grid.hidden;
  float* const out = step.out + slot * grid.products() + (part.is_second && grid.gated ? grid.columns : 0);
  const float weight = step.weighs ? step.owned.weights[slot] : 1.0f;
  BlockProduct<Shape>(
      part.is_second ? expert.up : expert.gate, part.tile * Shape::kRows, step.basis, 1,
      [&](uint32_t, uint32_t column) { return step.weighs ? x[column] * weight : x[column]; },
      [&](uint32_t, uint32_t row, float product) {
        out[row] = bias.empty() ? product : product + ReadVector(bias, row);
      });
}

template <ProductKind kind>
cudaError_t LaunchOf(cudaStream_t stream, const GateUpStep& step) {
  using Shape = SlotShape<kind>;
  const StepGrid& grid = step.grid;
  return LaunchParts(stream, &GateUpKernel<kind>, grid.max_slots(),
                     RowTiles::Of<Shape>(grid.gated ? grid.columns : 0, grid.columns), Shape::kThreads, step);
}

}  // namespace

cudaError_t LaunchGateUp(cudaStream_t stream, ProductKind kind, const GateUpStep& step) {
  return LaunchByKind(kind, [&](auto chosen) { return LaunchOf<decltype(chosen)::value>(stream, step); });
}

}  // namespace meshseal::cuda
