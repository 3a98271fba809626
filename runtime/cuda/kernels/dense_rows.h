// Rows of the tokens that dense groups bring, in two orders: those of the groups one after the other, as steps have
// them; and spread, with as much room for every group, so that what ranks exchange has sizes that no step changes.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_DENSE_ROWS_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_DENSE_ROWS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/comm/piece.h"

namespace meshseal::cuda {

struct DenseRowsStep {
  const runtime::Piece* rows = nullptr;  // [groups], in device memory: the rows of each group, of all T
  uint32_t groups = 0;
  uint32_t max_rows = 0;         // of a group
  uint64_t words_per_row = 0;    // of 32 bits
  uint64_t words_per_group = 0;  // of spread rows: max_rows * words_per_row or more
  const uint32_t* from = nullptr;
  uint32_t* to = nullptr;
};

// Spread rows become rows one after the other, and back. What has no row is neither read nor written.
cudaError_t LaunchPackRows(cudaStream_t stream, const DenseRowsStep& step);
cudaError_t LaunchSpreadRows(cudaStream_t stream, const DenseRowsStep& step);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_DENSE_ROWS_H_
