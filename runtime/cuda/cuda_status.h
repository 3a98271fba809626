// Results of CUDA calls as statuses.
#ifndef MESHSEAL_RUNTIME_CUDA_CUDA_STATUS_H_
#define MESHSEAL_RUNTIME_CUDA_CUDA_STATUS_H_

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace meshseal::cuda {

// `what` was asked of the device, in words. Reasons: kOutOfMemory where the device has no more of it, kDevice for every
// other failure. Takes the error away from the calling thread, so that a later call does not report it again; a device
// that is past use reports it at every call.
absl::Status FromCuda(cudaError_t error, absl::string_view what);

}  // namespace meshseal::cuda

// Returns from the enclosing function when `expr` (a cudaError_t) is a failure.
#define MESHSEAL_RETURN_IF_CUDA_ERROR(expr, what)                                 \
  do {                                                                            \
    if (const cudaError_t meshseal_cuda = (expr); meshseal_cuda != cudaSuccess) { \
      return ::meshseal::cuda::FromCuda(meshseal_cuda, what);                     \
    }                                                                             \
  } while (false)

#endif  // MESHSEAL_RUNTIME_CUDA_CUDA_STATUS_H_
