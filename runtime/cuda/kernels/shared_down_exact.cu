#include "runtime/cuda/kernels/block_grid.h"
#include "runtime/cuda/kernels/block_product.h"
#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/exact_row.h"
#include "runtime/cuda/kernels/shared_down_exact.h"

namespace meshseal::cuda {
namespace {

using Shape = SharedShape<ProductKind::kReference>;

__global__ void SharedDownExactKernel(SharedDownExactStep step) {
  const BlockPart part(RowTiles::Of<Shape>(step.hidden, 0));
  const uint32_t live = LiveOperands(part.group, Shape::kOperands, step.tokens->tokens);
  if (live == 0) return;
  const uint64_t token = uint64_t{part.group} * Shape::kOperands;
  const uint32_t row = part.tile * Shape::kRows + threadIdx.x;
  ExactRow sums[Shape::kOperands];
  if (!step.down.empty()) {
    ReferenceProduct<Shape>(
        step.down, part.tile * Shape::kRows, step.basis, live, Segments{step.segment_ends, step.segments},
        [&](uint32_t operand, uint32_t column) {
          return step.activations[(token + operand) * step.down.columns + column];
        },
        [&](uint32_t operand, float product) {
          sums[operand].Add(step.fixed_point, step.shares == nullptr ? 1.0f : step.shares[token + operand], product);
        });
  }
  const uint32_t words = static_cast<uint32_t>(SharedDownExactFailures(step.hidden));
  const uint32_t word = part.tile * Shape::kWarps + Warp();
  if (word >= words) return;
  for (uint32_t operand = 0; operand < Shape::kOperands; ++operand) {
    if (operand >= live) break;
    if (row < step.hidden) step.out[(token + operand) * step.hidden + row] = sums[operand].sum;
    WriteRefusal(sums[operand], kSharedExpert, step.failures + (token + operand) * words + word);
  }
}

}  // namespace

cudaError_t LaunchSharedDownExact(cudaStream_t stream, const SharedDownExactStep& step) {
  return LaunchParts(stream, &SharedDownExactKernel, GroupsOf(step.max_tokens, Shape::kOperands),
                     RowTiles::Of<Shape>(step.hidden, 0), Shape::kThreads, step);
}

}  // namespace meshseal::cuda
