#include "runtime/cuda/kernels/block_grid.h"
#include "runtime/cuda/kernels/block_product.h"
#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/down_exact.h"
#include "runtime/cuda/kernels/exact_row.h"

namespace meshseal::cuda {
namespace {

using Shape = SlotShape<ProductKind::kReference>;

__global__ void DownExactKernel(DownExactStep step) {
  const StepGrid& grid = step.grid;
  const BlockPart part(RowTiles::Of<Shape>(grid.hidden, 0));
  const StepTokens tokens = *grid.step;
  const uint64_t slot = part.group;
  if (slot >= uint64_t{tokens.tokens} * grid.top_k) return;
  const uint32_t words = static_cast<uint32_t>(DownExactFailures(grid.hidden));
  const uint32_t word = part.tile * Shape::kWarps + Warp();
  uint64_t* const failures = step.failures + slot * words;
  const int32_t local = step.owned.LocalExpert(slot, tokens, grid.top_k);
  if (local < 0) {
    if (word < words / 2 && Lane() == 0) {
      failures[word] = 0;
      failures[words / 2 + word] = 0;
    }
    return;
  }
  const DeviceExpert& expert = step.experts[local];
  const float* const activations = step.activations + slot * grid.columns;
  const float weight = step.weighs ? step.owned.weights[slot] : 1.0f;
  const uint32_t row = part.tile * Shape::kRows + threadIdx.x;
  if (step.computed != nullptr && part.is_first && threadIdx.x == 0) step.computed[slot] = 1;
  ExactRow products;
  ReferenceProduct<Shape>(
      expert.down, part.tile * Shape::kRows, step.basis, 1, Segments{step.segment_ends, step.segments},
      [&](uint32_t, uint32_t column) { return activations[column]; },
      [&](uint32_t, float product) { products.Add(step.fixed_point, weight, product); });
  if (word >= words / 2) return;
  ExactRow bias;
  if (step.adds_bias && !expert.down_bias.empty() && row < grid.hidden) {
    bias.Add(step.fixed_point, weight, ReadVector(expert.down_bias, row));
  }
  if (row < grid.hidden) step.out[slot * grid.hidden + row] = products.sum + bias.sum;
  const auto named = static_cast<uint32_t>(step.owned.experts[slot]);
  WriteRefusal(products, named, failures + word);
  WriteRefusal(bias, named, failures + words / 2 + word);
}

}  // namespace

cudaError_t LaunchDownExact(cudaStream_t stream, const DownExactStep& step) {
  return LaunchParts(stream, &DownExactKernel, step.grid.max_slots(), RowTiles::Of<Shape>(step.grid.hidden, 0),
                     Shape::kThreads, step);
}

}  // namespace meshseal::cuda
