#include "runtime/cuda/kernels/dense_rows.h"
#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/launch.h"

namespace meshseal::cuda {
namespace {

constexpr unsigned kThreads = 256;

// Blocks in x are a group's, groups are in y.
template <bool kPacks>
__global__ void DenseRowsKernel(DenseRowsStep step) {
  const runtime::Piece rows = step.rows[blockIdx.y];
  const uint64_t word = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (word >= rows.count * step.words_per_row) return;
  const uint64_t spread = blockIdx.y * step.words_per_group + word;
  const uint64_t packed = rows.first * step.words_per_row + word;
  if (kPacks) {
    step.to[packed] = step.from[spread];
  } else {
    step.to[spread] = step.from[packed];
  }
}

template <bool kPacks>
cudaError_t LaunchDenseRows(cudaStream_t stream, const DenseRowsStep& step) {
  const dim3 grid(BlocksFor(step.max_rows * step.words_per_row, kThreads), step.groups);
  return Launch(stream, DenseRowsKernel<kPacks>, grid, dim3(kThreads), 0, step);
}

}  // namespace

cudaError_t LaunchPackRows(cudaStream_t stream, const DenseRowsStep& step) {
  return LaunchDenseRows<true>(stream, step);
}
cudaError_t LaunchSpreadRows(cudaStream_t stream, const DenseRowsStep& step) {
  return LaunchDenseRows<false>(stream, step);
}

}  // namespace meshseal::cuda
