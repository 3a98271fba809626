// What this machine offers to the CUDA backend, for people.
#ifndef MESHSEAL_RUNTIME_CUDA_CUDA_REPORT_H_
#define MESHSEAL_RUNTIME_CUDA_CUDA_REPORT_H_

#include <string>
#include <vector>

#include "runtime/cuda/cuda_compute.h"
#include "runtime/cuda/device.h"

namespace meshseal::cuda {

struct CudaReport {
  std::string runtime;    // version of CUDA's runtime, "13.0"
  std::string nccl;       // "2.28.9"
  std::string nccl_sums;  // how NCCL is told to add: AlgorithmText
  std::string driver;     // "580.82.07"; empty where the driver's management library does not say
  std::vector<Device> devices;
  std::string refusal;  // why there are none; empty where there are some
};

// What fails is left out.
CudaReport ReportCuda(const CudaOptions& options);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_CUDA_REPORT_H_
