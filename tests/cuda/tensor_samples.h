// What the wrappers of tensor_code.h do, an instruction at a time: one warp.
#ifndef MESHSEAL_TESTS_CUDA_TENSOR_SAMPLES_H_
#define MESHSEAL_TESTS_CUDA_TENSOR_SAMPLES_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/cuda/kernels/tile_pieces.h"

namespace meshseal::cuda {

// The registers of every lane: [32][4] of A, [32][2] of B, and [32][4] of the sums, which are added to.
cudaError_t LaunchMultiplyAdd(HalfType type, const uint32_t* a, const uint32_t* b, float* sums);

// rows[32][8] -> registers[32][4]; of_lane[32]: the row that each lane says.
cudaError_t LaunchLoadMatrices(const uint16_t* rows, const uint32_t* of_lane, uint32_t* registers);

// numbers[32][2] -> packed[32].
cudaError_t LaunchPackTwo(HalfType type, const float* numbers, uint32_t* packed);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_TESTS_CUDA_TENSOR_SAMPLES_H_
