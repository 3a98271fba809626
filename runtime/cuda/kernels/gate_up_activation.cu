#include "runtime/cuda/kernels/block_grid.h"
#include "runtime/cuda/kernels/block_product.h"
#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/gate_up_activation.h"
#include "runtime/numerics/activation_value.h"

namespace meshseal::cuda {
namespace {

template <ProductKind kind>
__global__ void GateUpActivationKernel(GateUpActivationStep step) {
  using Shape = SlotShape<kind>;
  MESHSEAL_SHARED(products, float[2][Shape::kRows]);  // of gate and up
  const StepGrid& grid = step.grid;
  const BlockPart part(RowTiles::Of<Shape>(grid.columns, 0));
  const uint64_t slot = part.group;
  const int32_t local = part.LocalExpert(grid, step.owned, step.computed);
  if (local < 0) return;
  const DeviceExpert& expert = step.experts[local];
  const float* const x = step.x + slot / grid.top_k * grid.hidden;
  const float weight = step.weighs_input || step.weighs_activation ? step.owned.weights[slot] : 1.0f;
  const uint32_t first = part.tile * Shape::kRows;
  MESHSEAL_NO_UNROLL
  for (uint32_t half = grid.gated ? 0 : 1; half < 2; ++half) {
    const DeviceMatrix& bias = half == 0 ? expert.gate_bias : expert.up_bias;
    BlockProduct<Shape>(
        half == 0 ? expert.gate : expert.up, first, step.basis, 1,
        [&](uint32_t, uint32_t column) { return step.weighs_input ? x[column] * weight : x[column]; },
        [&](uint32_t, uint32_t row, float product) {
          products[half][row - first] = bias.empty() ? product : product + ReadVector(bias, row);
        });
  }
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < Shape::kRows && first + i < grid.columns; i += Shape::kThreads) {
    const float value = runtime::Activated(step.rule, grid.gated ? products[0][i] : 0.0f, products[1][i]);
    step.out[slot * grid.columns + first + i] = step.weighs_activation ? value * weight : value;
  }
}

template <ProductKind kind>
cudaError_t LaunchOf(cudaStream_t stream, const GateUpActivationStep& step) {
  using Shape = SlotShape<kind>;
  return LaunchParts(stream, &GateUpActivationKernel<kind>, step.grid.max_slots(),
                     RowTiles::Of<Shape>(step.grid.columns, 0), Shape::kThreads, step);
}

}  // namespace

cudaError_t LaunchGateUpActivation(cudaStream_t stream, ProductKind kind, const GateUpActivationStep& step) {
  return LaunchByKind(kind, [&](auto chosen) { return LaunchOf<decltype(chosen)::value>(stream, step); });
}

}  // namespace meshseal::cuda
