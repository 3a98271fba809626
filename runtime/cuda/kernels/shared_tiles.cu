#include "runtime/cuda/kernels/block_grid.h"
#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/shared_tiles.h"
#include "runtime/cuda/kernels/tile_product.h"

namespace meshseal::cuda {
namespace {

// What shared_gate_up and shared_down have in common.
struct TilesStep {
  const StepTokens* tokens = nullptr;
  uint32_t max_tokens = 0;
  DeviceMatrix first;   // gate; empty of down, and where there is no gate
  DeviceMatrix second;  // up, or down
  const float* x = nullptr;
  const float* shares = nullptr;  // what a token's products are multiplied with, or null
  float* out = nullptr;

  template <class Shape>
  MESHSEAL_HOST_DEVICE RowTiles Tiles() const {
    return RowTiles::Of<Shape>(first.rows, second.rows);
  }
};

template <class Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kDecodes ? 1 : 2) SharedTilesKernel(TilesStep step) {
  const BlockPart part(step.Tiles<Shape>());
  const uint32_t live = LiveOperands(part.group, Shape::kOperands, step.tokens->tokens);
  if (live == 0) return;
  const DeviceMatrix& matrix = part.is_second ? step.second : step.first;
  const uint64_t token = uint64_t{part.group} * Shape::kOperands;
  const uint64_t width = uint64_t{step.first.rows} + step.second.rows;
  float* const out = step.out + (part.is_second ? step.first.rows : 0);
  const auto operand = [&](uint32_t row) { return step.x + (token + row) * matrix.columns; };
  const auto nothing = [](uint32_t) { return 0.0f; };
  const auto store = [&](uint32_t row, uint32_t column, float product, float) {
    out[(token + row) * width + column] = step.shares == nullptr ? product : product * step.shares[token + row];
  };
  TileProduct<Shape>(matrix, part.tile * Shape::kRows, live, operand, nothing, store);
}

template <class Shape>
cudaError_t LaunchOf(cudaStream_t stream, const TilesStep& step) {
  return LaunchParts(stream, &SharedTilesKernel<Shape>, GroupsOf(step.max_tokens, Shape::kOperands),
                     step.Tiles<Shape>(), Shape::kThreads, step);
}

template <HalfType type>
cudaError_t LaunchOf(cudaStream_t stream, const TilesStep& step) {
  const bool are_halves = (step.first.empty() || AreHalves(type, step.first)) && AreHalves(type, step.second);
  return are_halves ? LaunchOf<WholeShape<type, false>>(stream, step) : LaunchOf<WholeShape<type, true>>(stream, step);
}

cudaError_t LaunchOf(cudaStream_t stream, Basis basis, const TilesStep& step) {
  if (basis == Basis::kBf16) return LaunchOf<HalfType::kBf16>(stream, step);
  if (basis == Basis::kF16) return LaunchOf<HalfType::kF16>(stream, step);
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t LaunchSharedTiles(cudaStream_t stream, const SharedGateUpStep& step) {
  return LaunchOf(stream, step.basis,
                  {step.tokens, step.max_tokens, step.gate, step.up, step.x, /*shares=*/nullptr, step.out});
}

cudaError_t LaunchSharedTiles(cudaStream_t stream, const SharedDownStep& step) {
  return LaunchOf(stream, step.basis,
                  {step.tokens, step.max_tokens, {}, step.down, step.activations, step.shares, step.out});
}

}  // namespace meshseal::cuda
