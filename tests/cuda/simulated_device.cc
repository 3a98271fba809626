#include "tests/cuda/simulated_device.h"

#include "tests/fake_cuda/fake_cuda.h"
#include "tests/simt/run_kernel.h"

namespace meshseal::cuda {

bool SimulateDevice(uint64_t seed) {
  fake_cuda::Options machine;
  machine.seed = seed;
  machine.devices[0].memory_bytes = uint64_t{1} << 30;
  fake_cuda::Reset(machine);
  fake_cuda::SetKernelRunner(simt::RunKernel);
  fake_cuda::SetKernelLookup(simt::ParameterBytes);
  return true;
}

}  // namespace meshseal::cuda
