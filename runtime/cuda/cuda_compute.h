// Devices as what computes for the ranks of a session.
#ifndef MESHSEAL_RUNTIME_CUDA_CUDA_COMPUTE_H_
#define MESHSEAL_RUNTIME_CUDA_CUDA_COMPUTE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "runtime/session/compute.h"

namespace meshseal::cuda {

struct CudaOptions {
  // The driver's management library, by which devices' modes are checked; empty: where it usually is.
  std::string management_library;
  // Run where there is none: modes are then not known.
  bool without_management_library = false;
};

// OK where this process sees a device. Reason kDevice.
absl::Status CheckDevices();

// "cuda": each rank has a device of its own, and addends travel by NCCL. Ranks are where the session's world has them.
// Touches no device.
std::shared_ptr<runtime::Compute> MakeNcclCompute(const CudaOptions& options);

// "cuda-loopback": all ranks are threads of this process and share its first device, which is an emulation of the
// plan's mesh. Touches no device.
std::shared_ptr<runtime::Compute> MakeLoopbackCompute(const CudaOptions& options);

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_CUDA_COMPUTE_H_
