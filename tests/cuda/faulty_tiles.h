// The products of tile_product.h with a fault in it: that the tests of tiles would see one.
#ifndef MESHSEAL_TESTS_CUDA_FAULTY_TILES_H_
#define MESHSEAL_TESTS_CUDA_FAULTY_TILES_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/cuda/kernels/device_matrix.h"

namespace meshseal::cuda {

enum class TileFault : uint8_t {
  kNone,
  kNoBarrier,         // none at all
  kSwappedFragments,  // two registers of what a warp loads from shared memory
  kNextEight,         // a warp loads what lies eight columns further
  kNextRow,           // a product is stored a row too far
  kNextColumn,        // an operand is read a column too far
  kNextOperand,       // the next operand's products are stored
  kOneRowTooMany,     // the row behind the last one is stored
};

// out[operand][row] = a row of the matrix times an operand, rounded to bf16, for `operands` of them, at most 29, in x.
// Small blocks, so that there are several. x and out have room for one more operand. `decodes`: as in TileShape.
cudaError_t LaunchFaultyTiles(TileFault fault, bool decodes, const DeviceMatrix& matrix, const float* x,
                              uint32_t operands, float* out);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_TESTS_CUDA_FAULTY_TILES_H_
