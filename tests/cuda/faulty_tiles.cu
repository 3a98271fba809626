#include <utility>

#include "runtime/cuda/kernels/tensor_code.h"
#include "tests/cuda/faulty_tiles.h"

namespace meshseal::cuda {
namespace {

TileFault planted = TileFault::kNone;

void Barrier() {
  if (planted != TileFault::kNoBarrier) __syncthreads();
}

void Load(const Eight& row, uint32_t (&matrices)[4]) {
  LoadMatrices(planted == TileFault::kNextEight ? *(&row + 1) : row, matrices);
  if (planted == TileFault::kSwappedFragments) std::swap(matrices[1], matrices[2]);
}

}  // namespace
}  // namespace meshseal::cuda
// The shapes below are used here alone, so that what is made of them is no other file's.
#define __syncthreads Barrier
#define LoadMatrices Load

#include "runtime/cuda/kernels/launch.h"
#include "runtime/cuda/kernels/tile_product.h"

namespace meshseal::cuda {
namespace {

template <bool decodes>
using Shape = TileShape<HalfType::kBf16, decodes, 1, 2, 1, 2>;

template <bool decodes>
__global__ void FaultyTilesKernel(TileFault fault, DeviceMatrix matrix, const float* x, uint32_t operands, float* out) {
  const uint32_t next_column = fault == TileFault::kNextColumn ? 1 : 0;
  const uint32_t next_row = fault == TileFault::kNextRow ? 1 : 0;
  const uint32_t next_operand = fault == TileFault::kNextOperand ? 1 : 0;
  const uint32_t rows = matrix.rows;
  TileProduct<Shape<decodes>>(
      matrix, blockIdx.x * Shape<decodes>::kRows, operands,
      [&](uint32_t operand) { return x + operand * matrix.columns + next_column; }, [](uint32_t) { return 0.0f; },
      [&](uint32_t operand, uint32_t row, float product, float) {
        out[(operand + next_operand) * rows + row + next_row] = product;
        if (fault == TileFault::kOneRowTooMany && row == rows - 1) out[operand * rows + row + 1] = product;
      });
}

template <bool decodes>
cudaError_t LaunchOf(TileFault fault, const DeviceMatrix& matrix, const float* x, uint32_t operands, float* out) {
  return Launch(nullptr, &FaultyTilesKernel<decodes>, dim3(BlocksFor(matrix.rows, Shape<decodes>::kRows)),
                dim3(Shape<decodes>::kThreads), 0, fault, matrix, x, operands, out);
}

}  // namespace

cudaError_t LaunchFaultyTiles(TileFault fault, bool decodes, const DeviceMatrix& matrix, const float* x,
                              uint32_t operands, float* out) {
  planted = fault;
  return decodes ? LaunchOf<true>(fault, matrix, x, operands, out) : LaunchOf<false>(fault, matrix, x, operands, out);
}

}  // namespace meshseal::cuda
