#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/launch.h"
#include "runtime/cuda/kernels/residual.h"

namespace meshseal::cuda {
namespace {

constexpr unsigned kThreads = 256;

__global__ void ResidualKernel(ResidualStep step) {
  const uint64_t i = GridThread();
  if (i < uint64_t{step.own->tokens} * step.hidden) step.out[i] = step.reduced[i] + step.input[i];
}

}  // namespace

cudaError_t LaunchResidual(cudaStream_t stream, const ResidualStep& step) {
  const uint64_t elements = uint64_t{step.max_tokens} * step.hidden;
  return Launch(stream, ResidualKernel, dim3(BlocksFor(elements, kThreads)), dim3(kThreads), 0, step);
}

}  // namespace meshseal::cuda
