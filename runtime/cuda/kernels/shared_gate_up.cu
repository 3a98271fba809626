#include "runtime/cuda/kernels/block_grid.h"
#include "runtime/cuda/kernels/block_product.h"
#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/shared_gate_up.h"
#include "runtime/cuda/kernels/shared_tiles.h"

namespace meshseal::cuda {
namespace {

template <ProductKind kind>
__global__ void SharedGateUpKernel(SharedGateUpStep step) {
  using Shape = SharedShape<kind>;
  const BlockPart part(RowTiles::Of<Shape>(step.gate.rows, step.up.rows));
  const uint32_t live = LiveOperands(part.group, Shape::kOperands, step.tokens->tokens);
  if (live == 0) return;
  const DeviceMatrix& matrix = part.is_second ? step.up : step.gate;
  const uint64_t token = uint64_t{part.group} * Shape::kOperands;
  const uint64_t products = uint64_t{step.gate.rows} + step.up.rows;
  const uint32_t offset = part.is_second ? step.gate.rows : 0;
  BlockProduct<Shape>(
      matrix, part.tile * Shape::kRows, step.basis, live,
      [&](uint32_t operand, uint32_t column) { return step.x[(token + operand) * matrix.columns + column]; },
      [&](uint32_t operand, uint32_t row, float product) {
        step.out[(token + operand) * products + offset + row] = product;
      });
}

template <ProductKind kind>
cudaError_t LaunchOf(cudaStream_t stream, const SharedGateUpStep& step) {
  using Shape = SharedShape<kind>;
  return LaunchParts(stream, &SharedGateUpKernel<kind>, GroupsOf(step.max_tokens, Shape::kOperands),
                     RowTiles::Of<Shape>(step.gate.rows, step.up.rows), Shape::kThreads, step);
}

}  // namespace

cudaError_t LaunchSharedGateUp(cudaStream_t stream, ProductKind kind, const SharedGateUpStep& step) {
  if (kind == ProductKind::kTiles) return LaunchSharedTiles(stream, step);
  return LaunchByKind(kind, [&](auto chosen) { return LaunchOf<decltype(chosen)::value>(stream, step); });
}

}  // namespace meshseal::cuda
