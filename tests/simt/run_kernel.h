// Runs a kernel that was made known (known_kernels.h): what a stand-in of the CUDA runtime calls.
#ifndef MESHSEAL_TESTS_SIMT_RUN_KERNEL_H_
#define MESHSEAL_TESTS_SIMT_RUN_KERNEL_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace simt {

// All blocks of the grid, one after the other, on the calling thread. `args` points to the values of the kernel's
// parameters, as for cudaLaunchKernelExC. The order of blocks and of threads follows from `seed`; 0: ascending. False
// with an error's text, "kernel scale(float*), block (0, 0, 0), thread (5, 0, 0): barrier not reached by all: ...",
// after which what the kernel wrote is of no use. Several threads may run kernels at the same time.
bool RunKernel(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes, void** args, uint64_t seed,
               std::string* error);

// Bytes of each parameter, for who keeps arguments until later; empty for a kernel that is not known.
std::vector<size_t> ParameterBytes(const void* kernel);

}  // namespace simt

#endif  // MESHSEAL_TESTS_SIMT_RUN_KERNEL_H_
