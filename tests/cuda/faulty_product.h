// The products of block_product.h with a fault in it: that the tests of the matrix kernels would see one.
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
};

// out[operand][row] = a row of the matrix times an operand, for `operands` of them, at most 3, in x. Blocks of few
// rows, so that there are several, and of a few chunks. Both have room for one more operand.
cudaError_t LaunchFaultyProduct(ProductKind kind, ProductFault fault, const DeviceMatrix& matrix, const float* x,
                                uint32_t operands, float* out);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_TESTS_CUDA_FAULTY_PRODUCT_H_
