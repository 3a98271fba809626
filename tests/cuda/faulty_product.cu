#include "tests/cuda/faulty_product.h"

namespace {
bool has_barriers = true;
void Barrier() {
  if (has_barriers) __syncthreads();
}
}  // namespace
// The shapes below are used here alone, so that what is made of them is no other file's.
#define __syncthreads Barrier

#include "runtime/cuda/kernels/block_product.h"
#include "runtime/cuda/kernels/launch.h"

namespace meshseal::cuda {
namespace {

template <ProductKind kind>
using Shape = BlockShape<kind, 3, 2, kind == ProductKind::kReference ? 32 : 3>;

template <ProductKind kind>
__global__ void FaultyKernel(ProductFault fault, DeviceMatrix matrix, const float* x, uint32_t operands, float* out) {
  const uint32_t next_column = fault == ProductFault::kNextColumn ? 1 : 0;
  const uint32_t next_row = fault == ProductFault::kNextRow ? 1 : 0;
  const uint32_t next_operand = fault == ProductFault::kNextOperand ? 1 : 0;
  const uint32_t rows = matrix.rows;
  BlockProduct<Shape<kind>>(
      matrix, blockIdx.x * Shape<kind>::kRows, Basis::kF32, operands,
      [&](uint32_t operand, uint32_t column) { return x[operand * matrix.columns + column + next_column]; },
      [&](uint32_t operand, uint32_t row, float product) {
        out[(operand + next_operand) * rows + row + next_row] = product;
        if (fault == ProductFault::kOneRowTooMany && row == rows - 1) out[operand * rows + row + 1] = product;
      });
}

template <ProductKind kind>
cudaError_t LaunchOf(ProductFault fault, const DeviceMatrix& matrix, const float* x, uint32_t operands, float* out) {
  return Launch(nullptr, &FaultyKernel<kind>, dim3(BlocksFor(matrix.rows, Shape<kind>::kRows)),
                dim3(Shape<kind>::kThreads), 0, fault, matrix, x, operands, out);
}

}  // namespace

cudaError_t LaunchFaultyProduct(ProductKind kind, ProductFault fault, const DeviceMatrix& matrix, const float* x,
                                uint32_t operands, float* out) {
  has_barriers = fault != ProductFault::kNoBarrier;
  return kind == ProductKind::kReference ? LaunchOf<ProductKind::kReference>(fault, matrix, x, operands, out)
                                         : LaunchOf<ProductKind::kLanes>(fault, matrix, x, operands, out);
}

}  // namespace meshseal::cuda
