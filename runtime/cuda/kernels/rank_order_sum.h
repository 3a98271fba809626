// Sums over the members of a group, in member order; and an exact sum's rounding to float32.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_RANK_ORDER_SUM_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_RANK_ORDER_SUM_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/comm/piece.h"
#include "runtime/program/fixed_point.h"

namespace meshseal::cuda {

// sum[i] of the piece = addend of member 0 + that of member 1 + ..., rounded at each step. Each member's addends begin
// `member_stride` elements after those of the one before; element 0 of each is the piece's first.
template <class T>
struct RankOrderSumStep {
  const runtime::Piece* piece = nullptr;  // in device memory: what is a member's own follows from the step's tokens
  uint64_t max_elements = 0;              // of the piece
  uint32_t members = 0;
  uint64_t member_stride = 0;
  const T* addends = nullptr;
  T* sum = nullptr;  // its element piece->first is the first that is written
};

cudaError_t LaunchRankOrderSum(cudaStream_t stream, const RankOrderSumStep<float>& step);
cudaError_t LaunchRankOrderSum(cudaStream_t stream, const RankOrderSumStep<int64_t>& step);

// out[i] = the float32 nearest to fixed[piece->first + i].
struct FixedToFloatStep {
  const runtime::Piece* piece = nullptr;
  uint64_t max_elements = 0;
  runtime::FixedPoint fixed_point;
  const int64_t* fixed = nullptr;
  float* out = nullptr;
};

cudaError_t LaunchFixedToFloat(cudaStream_t stream, const FixedToFloatStep& step);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_RANK_ORDER_SUM_H_
