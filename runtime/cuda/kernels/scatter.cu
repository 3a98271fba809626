#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/launch.h"
#include "runtime/cuda/kernels/scatter.h"

namespace meshseal::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWarps = 4;  // of a block of scans

MESHSEAL_DEVICE uint64_t SlotsOf(const StepGrid& grid) { return uint64_t{grid.step->tokens} * grid.top_k; }

__global__ void AssignKernel(ScatterStep step) {
  const uint64_t slot = GridThread();
  if (slot >= SlotsOf(step.grid)) return;
  step.local_of_slot[slot] = step.owned.LocalExpert(slot, *step.grid.step, step.grid.top_k);
}

// Calls found(slot, place) for every slot of `local`, by the lane that saw it; place counts them from 0. How many.
template <class Found>
MESHSEAL_DEVICE uint32_t ScanSlots(const ScatterStep& step, int32_t local, const Found& found) {
  const uint64_t slots = SlotsOf(step.grid);
  uint32_t before = 0;
  for (uint64_t first = 0; first < slots; first += kWarpLanes) {
    const uint64_t slot = first + Lane();
    const bool is_its = slot < slots && step.local_of_slot[slot] == local;
    const unsigned lanes = __ballot_sync(kWholeWarp, is_its);
    if (is_its) found(slot, before + static_cast<uint32_t>(__popc(lanes & ((1u << Lane()) - 1))));
    before += static_cast<uint32_t>(__popc(lanes));
  }
  return before;
}

__global__ void CountKernel(ScatterStep step) {
  const uint32_t local = blockIdx.x * kWarps + Warp();
  if (local >= step.local_experts) return;
  const uint32_t count = ScanSlots(step, static_cast<int32_t>(local), [](uint64_t, uint32_t) {});
  if (Lane() == 0) step.counts[local] = count;
}

// One warp: sums of the padded counts before each expert.
__global__ void OffsetsKernel(ScatterStep step) {
  uint64_t before = 0;
  for (uint32_t first = 0; first < step.local_experts; first += kWarpLanes) {
    const uint32_t local = first + Lane();
    const uint64_t count = local < step.local_experts ? step.counts[local] : 0;
    const uint64_t padded = (count + step.tile_rows - 1) / step.tile_rows * step.tile_rows;
    const uint64_t up_to = WarpSumUpTo(padded);
    if (local < step.local_experts) step.first_row[local] = static_cast<int32_t>(before + up_to - padded);
    before += __shfl_sync(kWholeWarp, up_to, static_cast<int>(kWarpLanes - 1));
  }
  const bool fits = before <= step.capacity;
  if (Lane() == 0) {
    const uint32_t needed = before < 0xFFFFFFFFu ? static_cast<uint32_t>(before) : 0xFFFFFFFFu;
    *step.failure = fits ? 0 : FailureWord(FailureKind::kGroupedRows, 0, needed);
    step.first_row[step.local_experts] = fits ? static_cast<int32_t>(before) : 0;
  }
  if (fits) return;
  for (uint32_t local = Lane(); local < step.local_experts; local += kWarpLanes) step.first_row[local] = 0;
}

// Warp e places the slots of local expert e and ends its rows with padding; the last warp does what is no expert's.
__global__ void PlaceKernel(ScatterStep step) {
  const uint32_t local = blockIdx.x * kWarps + Warp();
  if (local > step.local_experts) return;
  const bool fits = *step.failure == 0;
  if (local == step.local_experts) {
    const uint64_t slots = SlotsOf(step.grid);
    for (uint64_t slot = Lane(); slot < slots; slot += kWarpLanes) {
      if (!fits || step.local_of_slot[slot] < 0) step.row_of_slot[slot] = -1;
    }
    const auto end = static_cast<uint32_t>(step.first_row[local]);
    for (uint32_t row = end + Lane(); row < step.capacity; row += kWarpLanes) step.slot_of_row[row] = -1;
    return;
  }
  if (!fits) return;
  const auto first = static_cast<uint32_t>(step.first_row[local]);
  const uint32_t count = ScanSlots(step, static_cast<int32_t>(local), [&](uint64_t slot, uint32_t place) {
    step.row_of_slot[slot] = static_cast<int32_t>(first + place);
    step.slot_of_row[first + place] = static_cast<int32_t>(slot);
  });
  const auto end = static_cast<uint32_t>(step.first_row[local + 1]);
  for (uint32_t row = first + count + Lane(); row < end; row += kWarpLanes) step.slot_of_row[row] = -1;
}

__global__ void CopyKernel(ScatterStep step) {
  const int32_t slot = step.slot_of_row[GridRow()];
  const uint64_t h = GridColumn();
  if (slot < 0 || h >= step.grid.hidden) return;
  const float value = step.x[static_cast<uint64_t>(slot) / step.grid.top_k * step.grid.hidden + h];
  step.rows[GridRow() * step.grid.hidden + h] = step.weighs ? value * step.owned.weights[slot] : value;
}

__global__ void UnscatterKernel(UnscatterStep step) {
  const uint64_t slot = GridRow();
  const uint64_t column = GridColumn();
  if (slot >= SlotsOf(step.grid) || column >= step.width) return;
  const int32_t row = step.row_of_slot[slot];
  if (row < 0) return;
  step.out[slot * step.width + column] = step.rows[static_cast<uint64_t>(row) * step.width + column];
}

}  // namespace

cudaError_t LaunchScatter(cudaStream_t stream, const ScatterStep& step) {
  const unsigned all_slots = BlocksFor(step.grid.max_slots(), kThreads);
  const dim3 scans(kWarps * kWarpLanes);
  cudaError_t status = Launch(stream, AssignKernel, dim3(all_slots), dim3(kThreads), 0, step);
  if (status != cudaSuccess) return status;
  status = Launch(stream, CountKernel, dim3(BlocksFor(step.local_experts, kWarps)), scans, 0, step);
  if (status != cudaSuccess) return status;
  status = Launch(stream, OffsetsKernel, dim3(1), dim3(kWarpLanes), 0, step);
  if (status != cudaSuccess) return status;
  status = Launch(stream, PlaceKernel, dim3(BlocksFor(uint64_t{step.local_experts} + 1, kWarps)), scans, 0, step);
  if (status != cudaSuccess) return status;
  return Launch(stream, CopyKernel, GridOfRows(step.capacity, step.grid.hidden, kThreads), dim3(kThreads), 0, step);
}

cudaError_t LaunchUnscatter(cudaStream_t stream, const UnscatterStep& step) {
  return Launch(stream, UnscatterKernel, GridOfRows(step.grid.max_slots(), step.width, kThreads), dim3(kThreads), 0,
                step);
}

}  // namespace meshseal::cuda
