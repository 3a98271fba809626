// The products of block_product.h and of tile_product.h with a fault in them: that the tests of the kernels which are
// made of them would see one.
#ifndef MESHSEAL_TESTS_CUDA_FAULTY_PRODUCT_H_
#define MESHSEAL_TESTS_CUDA_FAULTY_PRODUCT_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/cuda/kernels/device_matrix.h"
#include "runtime/cuda/kernels/product_kind.h"

namespace meshseal::cuda {

enum class ProductFault : uint8_t {
  kNone,
  kNoBarrier,      // none at all
  kNextRow,        // a product is stored a row too far
  kNextColumn,     // an operand is read a column too far
  kNextOperand,    // the next operand's products are stored
  kOneRowTooMany,  // the row behind the last one is stored
  // Of tiles:
  kSwappedFragments,  // two registers of what a warp loads from shared memory
  kNextEight,         // a warp loads what lies eight columns further
};

// out[operand][row] = a row of the matrix times an operand, for `operands` of them in x, at most 3. Blocks of few rows,
// so that there are several, and of a few chunks. x and out have room for one more operand.
cudaError_t LaunchFaultyProduct(ProductKind kind, ProductFault fault, const DeviceMatrix& matrix, const float* x,
                                uint32_t operands, float* out);

// The same by tiles, of at most 29 operands, which are rounded to bf16. `decodes`: as in TileShape.
cudaError_t LaunchFaultyTiles(ProductFault fault, bool decodes, const DeviceMatrix& matrix, const float* x,
                              uint32_t operands, float* out);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_TESTS_CUDA_FAULTY_PRODUCT_H_
