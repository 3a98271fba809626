#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/launch.h"
#include "tests/simt/sample_kernels.h"

namespace simt {
namespace {

using meshseal::cuda::DynamicShared;
using meshseal::cuda::kWholeWarp;
using meshseal::cuda::Lane;
using meshseal::cuda::Launch;
using meshseal::cuda::Warp;
using meshseal::cuda::WarpSum;

__global__ void BlockSums(const int* values, int* out, Fault fault) {
  MESHSEAL_SHARED(parts, int[4]);
  const unsigned thread = threadIdx.x;
  const int sum = WarpSum(values[blockIdx.x * blockDim.x + thread]);
  int* part = &parts[Warp()];
  if (Lane() == 0) part[fault == Fault::kSharedBeyond ? 1 : 0] = sum;
  if (fault == Fault::kDynamicBeyond) DynamicShared<int>()[thread + 1] = sum;
  if (fault == Fault::kBarrierAfterExit && thread < 64) return;
  if (fault == Fault::kBarrierInBranch && thread >= 64) return;
  if (fault == Fault::kTwoBarriers && thread >= 64) {
    __syncthreads();
  } else if (fault != Fault::kNoBarrier) {
    __syncthreads();
  }
  if (thread != 0) return;
  int total = 0;
  for (unsigned warp = 0; warp < 4; ++warp) total += parts[warp];
  out[blockIdx.x] = total;
  if (fault == Fault::kStoreBeyond && blockIdx.x == gridDim.x - 1) out[blockIdx.x + 1] = total;
}

__global__ void OneWarp(int* out, Fault fault) {
  const unsigned lane = Lane();
  const int value = static_cast<int>(lane);
  if (fault == Fault::kWarpAfterExit && lane == 0) return;
  if (fault == Fault::kWarpWaitsForBlock && lane == 0) __syncthreads();
  if (fault == Fault::kTwoWarpBarriers && lane == 0) {
    __syncwarp();
  } else {
    __syncwarp(fault == Fault::kShortMask ? 0xFFFFFFFEu : kWholeWarp);
  }
  if (fault == Fault::kShuffleOutsideMask) {
    if (lane < 16) out[lane] = __shfl_sync(0xFFFFu, value, static_cast<int>(lane + 16));
    return;
  }
  out[lane] = __shfl_xor_sync(kWholeWarp, value, 1);
}

__global__ void WarpOperations(int* out) {
  const int lane = static_cast<int>(Lane());
  int* row = out + lane * 7;
  row[0] = __shfl_sync(kWholeWarp, lane, 5);
  row[1] = __shfl_xor_sync(kWholeWarp, lane, 16);
  row[2] = __shfl_down_sync(kWholeWarp, lane, 3, 8);
  row[3] = __shfl_up_sync(kWholeWarp, lane, 3, 8);
  row[4] = static_cast<int>(__ballot_sync(kWholeWarp, lane % 3 == 0));
  row[5] = __any_sync(kWholeWarp, lane == 31) + 2 * __all_sync(kWholeWarp, lane >= 0);
  row[6] = AllLanes(lane)[static_cast<size_t>(31 - lane)];
}

__global__ void Indices(unsigned* out) {
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  out[block * threads + thread] = block * 1000 + thread;
}

__global__ void OrderSensitive(unsigned* out) {
  if (threadIdx.x == 0) *out = blockIdx.x;
}

__global__ void Unwritten(uint32_t* out) {
  MESHSEAL_SHARED(words, uint32_t[8]);
  out[2 * blockIdx.x] = words[threadIdx.x];
  out[2 * blockIdx.x + 1] = DynamicShared<uint32_t>()[threadIdx.x];
  words[threadIdx.x] = 7;
  DynamicShared<uint32_t>()[threadIdx.x] = 7;
}

}  // namespace

cudaError_t LaunchBlockSums(const int* values, int* out, unsigned blocks, Fault fault) {
  return Launch(nullptr, BlockSums, dim3(blocks), dim3(kSumThreads), kSumThreads * sizeof(int), values, out, fault);
}

cudaError_t LaunchOneWarp(int* out, Fault fault) { return Launch(nullptr, OneWarp, dim3(1), dim3(32), 0, out, fault); }

cudaError_t LaunchWarpOperations(int* out) { return Launch(nullptr, WarpOperations, dim3(1), dim3(32), 0, out); }

cudaError_t LaunchIndices(dim3 grid, dim3 block, unsigned* out) {
  return Launch(nullptr, Indices, grid, block, 0, out);
}

cudaError_t LaunchOrderSensitive(unsigned* out, unsigned blocks) {
  return Launch(nullptr, OrderSensitive, dim3(blocks), dim3(2), 0, out);
}

cudaError_t LaunchUnwritten(uint32_t* out, unsigned blocks) {
  return Launch(nullptr, Unwritten, dim3(blocks), dim3(1), sizeof(uint32_t), out);
}

}  // namespace simt
