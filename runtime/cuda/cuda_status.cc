#include "runtime/cuda/cuda_status.h"

#include "absl/strings/str_cat.h"
#include "schema/reason.h"

namespace meshseal::cuda {

absl::Status FromCuda(cudaError_t error, absl::string_view what) {
  if (error == cudaSuccess) return absl::OkStatus();
  static_cast<void>(cudaGetLastError());
  return Refuse(error == cudaErrorMemoryAllocation ? Reason::kOutOfMemory : Reason::kDevice,
                absl::StrCat(what, ": ", cudaGetErrorName(error), " (", cudaGetErrorString(error), ")"));
}

}  // namespace meshseal::cuda
