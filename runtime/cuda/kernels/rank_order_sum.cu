#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/launch.h"
#include "runtime/cuda/kernels/rank_order_sum.h"

namespace meshseal::cuda {
namespace {

constexpr unsigned kThreads = 256;

template <class T>
__global__ void RankOrderSumKernel(RankOrderSumStep<T> step) {
  const uint64_t i = GridThread();
  if (i >= step.piece->count) return;
  T sum = step.addends[i];
  for (uint32_t member = 1; member < step.members; ++member) sum += step.addends[member * step.member_stride + i];
  step.sum[step.piece->first + i] = sum;
}

__global__ void FixedToFloatKernel(FixedToFloatStep step) {
  const uint64_t i = GridThread();
  if (i >= step.piece->count) return;
  step.out[i] = step.fixed_point.ToFloat(step.fixed[step.piece->first + i]);
}

}  // namespace

cudaError_t LaunchRankOrderSum(cudaStream_t stream, const RankOrderSumStep<float>& step) {
  return Launch(stream, RankOrderSumKernel<float>, dim3(BlocksFor(step.max_elements, kThreads)), dim3(kThreads), 0,
                step);
}

cudaError_t LaunchRankOrderSum(cudaStream_t stream, const RankOrderSumStep<int64_t>& step) {
  return Launch(stream, RankOrderSumKernel<int64_t>, dim3(BlocksFor(step.max_elements, kThreads)), dim3(kThreads), 0,
                step);
}

cudaError_t LaunchFixedToFloat(cudaStream_t stream, const FixedToFloatStep& step) {
  return Launch(stream, FixedToFloatKernel, dim3(BlocksFor(step.max_elements, kThreads)), dim3(kThreads), 0, step);
}

}  // namespace meshseal::cuda
