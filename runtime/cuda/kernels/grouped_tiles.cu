#include "runtime/cuda/kernels/block_grid.h"
#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/grouped_tiles.h"
#include "runtime/cuda/kernels/tile_product.h"

namespace meshseal::cuda {
namespace {

// What gate_up_grouped and down have in common.
struct TilesStep {
  StepGrid grid;
  DeviceGrouping grouping;
  const DeviceExpert* experts = nullptr;
  bool is_down = false;  // else gate and up
  bool adds_bias = false;
  const float* x = nullptr;
  float* out = nullptr;
  uint32_t* computed = nullptr;

  template <class Shape>
  MESHSEAL_HOST_DEVICE RowTiles Tiles() const {
    return is_down ? RowTiles::Of<Shape>(grid.hidden, 0)
                   : RowTiles::Of<Shape>(grid.gated ? grid.columns : 0, grid.columns);
  }
};

// Rows of one expert.
struct TileOfRows {
  uint32_t local = 0;
  uint32_t first = 0;
  uint32_t rows = 0;  // 0: there is no such tile
};

// Tile number `number`, of `most` rows, of all experts' tiles, one expert's after the other's. All lanes of the warp
// get it.
MESHSEAL_DEVICE TileOfRows FindTile(const DeviceGrouping& grouping, uint32_t most, uint32_t number) {
  uint32_t before = 0;
  for (uint32_t expert = 0; expert < grouping.local_experts; expert += kWarpLanes) {
    const uint32_t local = expert + Lane();
    const bool is_one = local < grouping.local_experts;
    const uint32_t first = is_one ? static_cast<uint32_t>(grouping.first_row[local]) : 0;
    const uint32_t rows = is_one ? static_cast<uint32_t>(grouping.first_row[local + 1]) - first : 0;
    const uint32_t tiles = (rows + most - 1) / most;
    const uint32_t up_to = before + WarpSumUpTo(tiles);
    const unsigned behind = __ballot_sync(kWholeWarp, number < up_to);
    const int lane = behind == 0 ? static_cast<int>(kWarpLanes - 1) : __ffs(static_cast<int>(behind)) - 1;
    const uint32_t offset = (number - __shfl_sync(kWholeWarp, up_to - tiles, lane)) * most;
    const uint32_t its_first = __shfl_sync(kWholeWarp, first, lane);
    const uint32_t its_rows = __shfl_sync(kWholeWarp, rows, lane);
    if (behind != 0) {
      const uint32_t left = its_rows - offset;
      return {expert + static_cast<uint32_t>(lane), its_first + offset, left < most ? left : most};
    }
    before = __shfl_sync(kWholeWarp, up_to, lane);
  }
  return {};
}

template <class Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kDecodes ? 1 : 2) GroupedTilesKernel(TilesStep step) {
  MESHSEAL_SHARED(slots, int32_t[Shape::kOperands]);
  const StepGrid& grid = step.grid;
  if (grid.step->tokens == 0) return;  // nothing was grouped
  const BlockPart part(step.Tiles<Shape>());
  const TileOfRows rows = FindTile(step.grouping, Shape::kOperands, part.group);
  if (rows.rows == 0) return;
  for (uint32_t row = threadIdx.x; row < rows.rows; row += Shape::kThreads) {
    const int32_t slot = step.grouping.slot_of_row[rows.first + row];
    slots[row] = slot;
    if (slot >= 0 && step.computed != nullptr && part.is_first) step.computed[slot] = 1;
  }
  __syncthreads();
  const DeviceExpert& expert = step.experts[rows.local];
  const DeviceMatrix& matrix = step.is_down ? expert.down : part.is_second ? expert.up : expert.gate;
  const DeviceMatrix& bias = step.is_down ? expert.down_bias : part.is_second ? expert.up_bias : expert.gate_bias;
  const bool adds_bias = step.adds_bias && !bias.empty();
  const uint64_t width = step.is_down ? grid.hidden : grid.products();
  float* const out = step.out + (!step.is_down && part.is_second && grid.gated ? grid.columns : 0);
  // Where a row with a slot lies.
  const auto place = [&](uint32_t row) -> uint64_t {
    return step.is_down ? static_cast<uint32_t>(slots[row]) : rows.first + row;
  };
  const auto operand = [&](uint32_t row) { return slots[row] < 0 ? nullptr : step.x + place(row) * matrix.columns; };
  const auto bias_of = [&](uint32_t column) { return adds_bias ? ReadVector(bias, column) : 0.0f; };
  const auto store = [&](uint32_t row, uint32_t column, float product, float its_bias) {
    if (slots[row] >= 0) out[place(row) * width + column] = adds_bias ? product + its_bias : product;
  };
  TileProduct<Shape>(matrix, part.tile * Shape::kRows, rows.rows, operand, bias_of, store);
}

template <class Shape>
cudaError_t LaunchOf(cudaStream_t stream, const TilesStep& step) {
  const DeviceGrouping& grouping = step.grouping;
  const uint64_t most = uint64_t{grouping.capacity / Shape::kOperands} +
                        (grouping.local_experts < grouping.capacity ? grouping.local_experts : grouping.capacity);
  return LaunchParts(stream, &GroupedTilesKernel<Shape>, most, step.Tiles<Shape>(), Shape::kThreads, step);
}

cudaError_t LaunchOf(cudaStream_t stream, Basis basis, bool are_halves, const TilesStep& step) {
  if (basis == Basis::kBf16) {
    return are_halves ? LaunchOf<WholeShape<HalfType::kBf16, false>>(stream, step)
                      : LaunchOf<WholeShape<HalfType::kBf16, true>>(stream, step);
  }
  if (basis != Basis::kF16) return cudaErrorInvalidValue;
  return are_halves ? LaunchOf<WholeShape<HalfType::kF16, false>>(stream, step)
                    : LaunchOf<WholeShape<HalfType::kF16, true>>(stream, step);
}

}  // namespace

cudaError_t LaunchGroupedTiles(cudaStream_t stream, const GateUpGroupedStep& step) {
  return LaunchOf(stream, step.basis, step.are_halves,
                  {step.grid, step.grouping, step.experts, /*is_down=*/false, /*adds_bias=*/true, step.rows, step.out,
                   step.computed});
}

cudaError_t LaunchGroupedTiles(cudaStream_t stream, const DownStep& step) {
  return LaunchOf(stream, step.basis, step.are_halves,
                  {step.grid, step.grouping, step.experts, /*is_down=*/true, step.adds_bias, step.activations, step.out,
                   step.computed});
}

}  // namespace meshseal::cuda
