#include <utility>

#include "runtime/cuda/kernels/tensor_code.h"
#include "tests/cuda/faulty_product.h"

namespace meshseal::cuda {
namespace {

ProductFault planted = ProductFault::kNone;

void Barrier() {
  if (planted != ProductFault::kNoBarrier) __syncthreads();
}

void Load(const Eight& row, uint32_t (&matrices)[4]) {
  LoadMatrices(planted == ProductFault::kNextEight ? *(&row + 1) : row, matrices);
  if (planted == ProductFault::kSwappedFragments) std::swap(matrices[1], matrices[2]);
}

}  // namespace
}  // namespace meshseal::cuda
// The shapes below are used here alone, so that what is made of them is no other file's.
#define __syncthreads Barrier
#define LoadMatrices Load

#include "runtime/cuda/kernels/block_product.h"
#include "runtime/cuda/kernels/launch.h"
#include "runtime/cuda/kernels/tile_product.h"

namespace meshseal::cuda {
namespace {

template <ProductKind kind>
using Shape = BlockShape<kind, 3, 2, kind == ProductKind::kReference ? 32 : 3>;
template <bool decodes>
using Tiles = TileShape<HalfType::kBf16, decodes, 1, 2, 1, 2>;

// What a product reads and stores, wrongly.
struct Faulty {
  ProductFault fault = ProductFault::kNone;
  DeviceMatrix matrix;
  const float* x = nullptr;
  uint32_t operands = 0;
  float* out = nullptr;

  const float* Operand(uint32_t operand) const {
    return x + operand * matrix.columns + (fault == ProductFault::kNextColumn ? 1 : 0);
  }
  void Store(uint32_t operand, uint32_t row, float product) const {
    const uint32_t next_row = fault == ProductFault::kNextRow ? 1 : 0;
    const uint32_t next_operand = fault == ProductFault::kNextOperand ? 1 : 0;
    out[(operand + next_operand) * matrix.rows + row + next_row] = product;
    if (fault == ProductFault::kOneRowTooMany && row == matrix.rows - 1) {
      out[operand * matrix.rows + row + 1] = product;
    }
  }
};

template <ProductKind kind>
__global__ void FaultyKernel(Faulty faulty) {
  BlockProduct<Shape<kind>>(
      faulty.matrix, blockIdx.x * Shape<kind>::kRows, Basis::kF32, faulty.operands,
      [&](uint32_t operand, uint32_t column) { return faulty.Operand(operand)[column]; },
      [&](uint32_t operand, uint32_t row, float product) { faulty.Store(operand, row, product); });
}

template <bool decodes>
__global__ void FaultyTilesKernel(Faulty faulty) {
  TileProduct<Tiles<decodes>>(
      faulty.matrix, blockIdx.x * Tiles<decodes>::kRows, faulty.operands,
      [&](uint32_t operand) { return faulty.Operand(operand); }, [](uint32_t) { return 0.0f; },
      [&](uint32_t operand, uint32_t row, float product, float) { faulty.Store(operand, row, product); });
}

template <class Blocks>
cudaError_t LaunchOf(void (*kernel)(Faulty), const Faulty& faulty) {
  planted = faulty.fault;
  return Launch(nullptr, kernel, dim3(BlocksFor(faulty.matrix.rows, Blocks::kRows)), dim3(Blocks::kThreads), 0, faulty);
}

}  // namespace

cudaError_t LaunchFaultyProduct(ProductKind kind, ProductFault fault, const DeviceMatrix& matrix, const float* x,
                                uint32_t operands, float* out) {
  const Faulty faulty = {fault, matrix, x, operands, out};
  constexpr ProductKind kReference = ProductKind::kReference;
  return kind == kReference ? LaunchOf<Shape<kReference>>(&FaultyKernel<kReference>, faulty)
                            : LaunchOf<Shape<ProductKind::kLanes>>(&FaultyKernel<ProductKind::kLanes>, faulty);
}

cudaError_t LaunchFaultyTiles(ProductFault fault, bool decodes, const DeviceMatrix& matrix, const float* x,
                              uint32_t operands, float* out) {
  const Faulty faulty = {fault, matrix, x, operands, out};
  return decodes ? LaunchOf<Tiles<true>>(&FaultyTilesKernel<true>, faulty)
                 : LaunchOf<Tiles<false>>(&FaultyTilesKernel<false>, faulty);
}

}  // namespace meshseal::cuda
