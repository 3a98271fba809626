// Which part of its step a block does, and the launch of as many blocks as there are parts. For .cu files alone.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_BLOCK_GRID_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_BLOCK_GRID_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <type_traits>
#include <utility>

#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/launch.h"
#include "runtime/cuda/kernels/product_kind.h"
#include "runtime/cuda/kernels/step_pods.h"
#include "runtime/host_device.h"

namespace meshseal::cuda {

// Tiles of one matrix's rows, or of two that are done in one launch: gate, then up.
struct RowTiles {
  uint32_t first = 0;   // of the first matrix
  uint32_t second = 0;  // of the second

  template <class Shape>
  MESHSEAL_HOST_DEVICE static RowTiles Of(uint32_t first_rows, uint32_t second_rows) {
    return {(first_rows + Shape::kRows - 1) / Shape::kRows, (second_rows + Shape::kRows - 1) / Shape::kRows};
  }
  MESHSEAL_HOST_DEVICE uint32_t all() const { return first + second; }
};

// A block's part: the tile varies fastest, so that neighbours read the same operands.
struct BlockPart {
  MESHSEAL_DEVICE explicit BlockPart(const RowTiles& tiles)
      : group(blockIdx.x / tiles.all()),
        is_first(blockIdx.x % tiles.all() == 0),
        is_second(blockIdx.x % tiles.all() >= tiles.first),
        tile(blockIdx.x % tiles.all() - (is_second ? tiles.first : 0)) {}

  // Of a block whose group is a slot: the local expert that computes it; -1: the block has nothing to do. Notes the
  // slot in `computed` ([T*k]; null: nowhere).
  MESHSEAL_DEVICE int32_t LocalExpert(const StepGrid& grid, const DeviceOwned& owned, uint32_t* computed) const {
    const StepTokens tokens = *grid.step;
    if (group >= uint64_t{tokens.tokens} * grid.top_k) return -1;
    const int32_t local = owned.LocalExpert(group, tokens, grid.top_k);
    if (local >= 0 && computed != nullptr && is_first && threadIdx.x == 0) computed[group] = 1;
    return local;
  }

  uint32_t group;  // the slot, or the number of the operands that are done together
  bool is_first;   // of its group's blocks
  bool is_second;  // of the second matrix
  uint32_t tile;
};

// Launches `groups` times `tiles` blocks of `threads`.
template <class... Parameters, class... Args>
cudaError_t LaunchParts(cudaStream_t stream, void (*kernel)(Parameters...), uint64_t groups, const RowTiles& tiles,
                        uint32_t threads, Args&&... args) {
  const uint64_t blocks = groups * tiles.all();
  if (blocks > 0x7FFFFFFFu) return cudaErrorInvalidConfiguration;
  return Launch(stream, kernel, dim3(static_cast<unsigned>(blocks)), dim3(threads), 0, std::forward<Args>(args)...);
}

// launch(kind) for the kinds of products that every matrix kernel has, as a constant.
template <class LaunchOf>
cudaError_t LaunchByKind(ProductKind kind, const LaunchOf& launch) {
  switch (kind) {
    case ProductKind::kLanes:
      return launch(std::integral_constant<ProductKind, ProductKind::kLanes>());
    case ProductKind::kReference:
      return launch(std::integral_constant<ProductKind, ProductKind::kReference>());
    case ProductKind::kTiles:
      break;
  }
  return cudaErrorInvalidValue;
}

// Groups of up to `operands` that hold `count`.
constexpr uint64_t GroupsOf(uint64_t count, uint32_t operands) { return (count + operands - 1) / operands; }

// Operands of group number `group` that there are.
MESHSEAL_DEVICE uint32_t LiveOperands(uint32_t group, uint32_t operands, uint32_t count) {
  const uint32_t first = group * operands;
  return first >= count ? 0 : count - first < operands ? count - first : operands;
}

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_BLOCK_GRID_H_
