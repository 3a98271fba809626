#include "runtime/cuda/kernels/block_grid.h"
#include "runtime/cuda/kernels/block_product.h"
#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/gate_up_grouped.h"
#include "runtime/cuda/kernels/grouped_tiles.h"

namespace meshseal::cuda {
namespace {

// The local expert of a grouped row, below first_row[experts].
MESHSEAL_DEVICE uint32_t ExpertOfRow(const int32_t* first_row, uint32_t experts, uint32_t row) {
  uint32_t expert = 0;  // its first row is not behind `row`, the one of `last` is
  uint32_t last = experts;
  while (last - expert > 1) {
    const uint32_t middle = expert + (last - expert) / 2;
    if (static_cast<uint32_t>(first_row[middle]) <= row) {
      expert = middle;
    } else {
      last = middle;
    }
  }
  return expert;
}

template <ProductKind kind>
__global__ void GateUpGroupedKernel(GateUpGroupedStep step) {
  using Shape = SharedShape<kind>;
  const StepGrid& grid = step.grid;
  if (grid.step->tokens == 0) return;  // nothing was grouped
  const BlockPart part(RowTiles::Of<Shape>(grid.gated ? grid.columns : 0, grid.columns));
  const uint32_t grouped = static_cast<uint32_t>(step.grouping.first_row[step.grouping.local_experts]);
  const uint32_t begin = part.group * Shape::kOperands;
  const uint32_t end = grouped < begin + Shape::kOperands ? grouped : begin + Shape::kOperands;
  for (uint32_t row = begin; row < end;) {
    const uint32_t local = ExpertOfRow(step.grouping.first_row, step.grouping.local_experts, row);
    const uint32_t behind = static_cast<uint32_t>(step.grouping.first_row[local + 1]);
    const uint32_t live = (behind < end ? behind : end) - row;
    uint32_t with_slot = 0;  // a bit for each of them
    for (uint32_t operand = 0; operand < live; ++operand) {
      const int32_t slot = step.grouping.slot_of_row[row + operand];
      if (slot < 0) continue;  // padding
      with_slot |= 1u << operand;
      if (step.computed != nullptr && part.is_first && threadIdx.x == 0) step.computed[slot] = 1;
    }
    const uint64_t first = row;
    row += live;
    if (with_slot == 0) continue;
    const DeviceExpert& expert = step.experts[local];
    const DeviceMatrix& bias = part.is_second ? expert.up_bias : expert.gate_bias;
    const uint32_t offset = part.is_second && grid.gated ? grid.columns : 0;
    BlockProduct<Shape>(
        part.is_second ? expert.up : expert.gate, part.tile * Shape::kRows, step.basis, live,
        [&](uint32_t operand, uint32_t column) {
          return (with_slot >> operand & 1u) != 0 ? step.rows[(first + operand) * grid.hidden + column] : 0.0f;
        },
        [&](uint32_t operand, uint32_t column, float product) {
          if ((with_slot >> operand & 1u) == 0) return;
          step.out[(first + operand) * grid.products() + offset + column] =
              bias.empty() ? product : product + ReadVector(bias, column);
        });
  }
}

template <ProductKind kind>
cudaError_t LaunchOf(cudaStream_t stream, const GateUpGroupedStep& step) {
  using Shape = SharedShape<kind>;
  const StepGrid& grid = step.grid;
  return LaunchParts(stream, &GateUpGroupedKernel<kind>, GroupsOf(step.grouping.capacity, Shape::kOperands),
                     RowTiles::Of<Shape>(grid.gated ? grid.columns : 0, grid.columns), Shape::kThreads, step);
}

}  // namespace

cudaError_t LaunchGateUpGrouped(cudaStream_t stream, ProductKind kind, const GateUpGroupedStep& step) {
  if (kind == ProductKind::kTiles) return LaunchGroupedTiles(stream, step);
  return LaunchByKind(kind, [&](auto chosen) { return LaunchOf<decltype(chosen)::value>(stream, step); });
}

}  // namespace meshseal::cuda
