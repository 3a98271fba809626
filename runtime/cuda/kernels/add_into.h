// sum[i] += addend[i].
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_ADD_INTO_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_ADD_INTO_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace meshseal::cuda {

cudaError_t LaunchAddInto(float* sum, const float* addend, uint64_t count, cudaStream_t stream);
cudaError_t LaunchAddInto(int64_t* sum, const int64_t* addend, uint64_t count, cudaStream_t stream);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_ADD_INTO_H_
