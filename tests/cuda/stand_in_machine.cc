// A machine with four devices for a program that does not know of it: made before main, looked at after it. What was
// done wrong there is written to standard error. Variables that it reads:
// - MESHSEAL_FAKE_NVML: where the driver's management library is to find its file
// - MESHSEAL_FAKE_NCCL_VERSION: the version that NCCL says, as a number (22809)
// - MESHSEAL_FAKE_SIGNAL: "FUNCTION N WAIT SIGNAL MARK": before the Nth call of a function of CUDA or NCCL the process
//   waits for so many milliseconds, in which others get to where they wait for it, writes the time, in nanoseconds of
//   CLOCK_MONOTONIC, to the file MARK, and raises the signal, a number
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/fake_nccl.h"
#include "tests/fake_cuda/fake_nvml.h"
#include "tests/simt/run_kernel.h"

namespace {

void Report() {
  for (const std::string& violation : fake_cuda::Violations())
    std::fprintf(stderr, "VIOLATION: %s\n", violation.c_str());
  if (!(fake_cuda::LeakReport() == fake_cuda::Alive())) std::fprintf(stderr, "LEAK\n");
}

bool RaiseLater(const std::string& wanted) {
  std::istringstream words(wanted);
  std::string function;
  std::string mark;
  uint64_t nth = 0;
  int64_t wait = 0;
  int signal = 0;
  words >> function >> nth >> wait >> signal >> mark;
  if (!words || nth == 0) return false;
  fake_cuda::BeforeCall(function, nth, [wait, signal, mark] {
    std::this_thread::sleep_for(std::chrono::milliseconds(wait));
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    std::ofstream(mark) << static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec << "\n";
    std::raise(signal);
  });
  return true;
}

[[maybe_unused]] const bool made = [] {
  fake_cuda::Options machine;
  machine.seed = 1;
  machine.devices.resize(4);
  for (fake_cuda::Device& device : machine.devices) device.memory_bytes = uint64_t{1} << 30;
  fake_cuda::Reset(machine);
  fake_cuda::SetKernelRunner(simt::RunKernel);
  fake_cuda::SetKernelLookup(simt::ParameterBytes);
  fake_nccl::Options nccl;
  if (const char* const version = std::getenv("MESHSEAL_FAKE_NCCL_VERSION"); version != nullptr) {
    nccl.version = std::atoi(version);
  }
  fake_nccl::Reset(nccl);
  if (const char* const path = std::getenv("MESHSEAL_FAKE_NVML"); path != nullptr && !fake_cuda::WriteNvmlFile(path)) {
    std::fprintf(stderr, "%s: not written\n", path);
  }
  if (const char* const wanted = std::getenv("MESHSEAL_FAKE_SIGNAL"); wanted != nullptr && !RaiseLater(wanted)) {
    std::fprintf(stderr, "MESHSEAL_FAKE_SIGNAL: '%s' is not FUNCTION N WAIT SIGNAL MARK\n", wanted);
  }
  return std::atexit(Report) == 0;
}();

}  // namespace
