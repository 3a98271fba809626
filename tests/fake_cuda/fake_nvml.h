// What the stand-in libnvidia-ml.so.1 tells. It is loaded by name, so that it reads a file: the one that the
// environment variable MESHSEAL_FAKE_NVML names, at nvmlInit_v2. Without one it has no driver.
#ifndef MESHSEAL_TESTS_FAKE_CUDA_FAKE_NVML_H_
#define MESHSEAL_TESTS_FAKE_CUDA_FAKE_NVML_H_

#include <map>
#include <string>

namespace fake_cuda {

struct NvmlOptions {
  std::string driver = "580.82.07";
  std::map<std::string, int> failing;  // function -> the nvmlReturn_t that it always returns
};

// Writes the file for the machine of fake_cuda.h as it is. The devices stand in the opposite order: NVML's numbers are
// not CUDA's. False: the file cannot be written.
//
// Lines: "driver VERSION", "device UUID BUS-ID mig ecc compute-mode fabric-state fabric-status fabric-clique
// fabric-cluster", "no-peer DEVICE DEVICE", "fail FUNCTION RESULT".
bool WriteNvmlFile(const std::string& path, const NvmlOptions& options = {});

}  // namespace fake_cuda

#endif  // MESHSEAL_TESTS_FAKE_CUDA_FAKE_NVML_H_
