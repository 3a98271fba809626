// A cudaLaunchKernelExC that runs the kernel at once, for tests of kernels without a CUDA runtime.
#ifndef MESHSEAL_TESTS_SIMT_DIRECT_LAUNCH_H_
#define MESHSEAL_TESTS_SIMT_DIRECT_LAUNCH_H_

#include <cstdint>
#include <string>

namespace simt {

// Of the launches of this thread from now on; 0 at first.
void SetSeed(uint64_t seed);

// The text of the last launch of this thread that failed, which returned cudaErrorLaunchFailure; "" afterwards.
std::string TakeError();

}  // namespace simt

#endif  // MESHSEAL_TESTS_SIMT_DIRECT_LAUNCH_H_
