// A machine with four devices for a program that does not know of it: made before main, looked at after it. What was
// done wrong there is written to standard error.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/fake_nvml.h"
#include "tests/simt/run_kernel.h"

namespace {

void Report() {
  for (const std::string& violation : fake_cuda::Violations())
    std::fprintf(stderr, "VIOLATION: %s\n", violation.c_str());
  if (!(fake_cuda::LeakReport() == fake_cuda::Alive())) std::fprintf(stderr, "LEAK\n");
}

[[maybe_unused]] const bool made = [] {
  fake_cuda::Options machine;
  machine.seed = 1;
  machine.devices.resize(4);
  for (fake_cuda::Device& device : machine.devices) device.memory_bytes = uint64_t{1} << 30;
  fake_cuda::Reset(machine);
  fake_cuda::SetKernelRunner(simt::RunKernel);
  fake_cuda::SetKernelLookup(simt::ParameterBytes);
  // Where the driver's management library is to find it.
  if (const char* const path = std::getenv("MESHSEAL_FAKE_NVML"); path != nullptr && !fake_cuda::WriteNvmlFile(path)) {
    std::fprintf(stderr, "%s: not written\n", path);
  }
  return std::atexit(Report) == 0;
}();

}  // namespace
