// What a program of tests does before it touches a device: on one there is nothing to do; on the stand-in of CUDA's
// runtime, kernels are to run under the SIMT shim. Which of the two files is linked decides.
#ifndef MESHSEAL_TESTS_CUDA_SIMULATED_DEVICE_H_
#define MESHSEAL_TESTS_CUDA_SIMULATED_DEVICE_H_

#include <cstdint>

namespace meshseal::cuda {

// Whether the device is simulated; threads, blocks and streams then take turns by `seed`.
bool SimulateDevice(uint64_t seed);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_TESTS_CUDA_SIMULATED_DEVICE_H_
