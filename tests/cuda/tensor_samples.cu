#include "runtime/cuda/kernels/launch.h"
#include "runtime/cuda/kernels/tensor_code.h"
#include "tests/cuda/tensor_samples.h"

namespace meshseal::cuda {
namespace {

template <HalfType type>
__global__ void MultiplyAddKernel(const uint32_t* a, const uint32_t* b, float* sums) {
  uint32_t of_a[4];
  float of_sums[4];
  for (uint32_t i = 0; i < 4; ++i) {
    of_a[i] = a[Lane() * 4 + i];
    of_sums[i] = sums[Lane() * 4 + i];
  }
  MultiplyAdd<type>(of_a, {b[Lane() * 2], b[Lane() * 2 + 1]}, of_sums);
  for (uint32_t i = 0; i < 4; ++i) sums[Lane() * 4 + i] = of_sums[i];
}

__global__ void LoadMatricesKernel(const uint16_t* rows, const uint32_t* of_lane, uint32_t* registers) {
  MESHSEAL_SHARED(shared, Eight[kWarpLanes]);
  for (uint32_t i = 0; i < 4; ++i) {
    const uint16_t* const pair = rows + Lane() * 8 + 2 * i;
    shared[Lane()].pairs[i] = uint32_t{pair[1]} << 16 | pair[0];
  }
  __syncthreads();
  uint32_t matrices[4];
  LoadMatrices(shared[of_lane[Lane()]], matrices);
  for (uint32_t i = 0; i < 4; ++i) registers[Lane() * 4 + i] = matrices[i];
}

template <HalfType type>
__global__ void PackTwoKernel(const float* numbers, uint32_t* packed) {
  packed[Lane()] = PackTwo<type>(numbers[Lane() * 2], numbers[Lane() * 2 + 1]);
}

}  // namespace

cudaError_t LaunchMultiplyAdd(HalfType type, const uint32_t* a, const uint32_t* b, float* sums) {
  return Launch(nullptr,
                type == HalfType::kBf16 ? &MultiplyAddKernel<HalfType::kBf16> : &MultiplyAddKernel<HalfType::kF16>,
                dim3(1), dim3(kWarpLanes), 0, a, b, sums);
}

cudaError_t LaunchLoadMatrices(const uint16_t* rows, const uint32_t* of_lane, uint32_t* registers) {
  return Launch(nullptr, &LoadMatricesKernel, dim3(1), dim3(kWarpLanes), 0, rows, of_lane, registers);
}

cudaError_t LaunchPackTwo(HalfType type, const float* numbers, uint32_t* packed) {
  return Launch(nullptr, type == HalfType::kBf16 ? &PackTwoKernel<HalfType::kBf16> : &PackTwoKernel<HalfType::kF16>,
                dim3(1), dim3(kWarpLanes), 0, numbers, packed);
}

}  // namespace meshseal::cuda
