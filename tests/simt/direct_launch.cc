#include "tests/simt/direct_launch.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "tests/simt/run_kernel.h"

namespace simt {
namespace {

thread_local uint64_t seed_of_launches = 0;
thread_local std::string error_of_launch;

}  // namespace

void SetSeed(uint64_t seed) { seed_of_launches = seed; }

std::string TakeError() { return std::exchange(error_of_launch, ""); }

}  // namespace simt

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* func, void** args) {
  const bool ran = simt::RunKernel(func, config->gridDim, config->blockDim, config->dynamicSmemBytes, args,
                                   simt::seed_of_launches, &simt::error_of_launch);
  return ran ? cudaSuccess : cudaErrorLaunchFailure;
}
