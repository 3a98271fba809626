#include "runtime/session/named_compute.h"

#include "absl/strings/str_cat.h"
#include "runtime/reference/reference_backend.h"
#include "schema/reason.h"
#ifdef MESHSEAL_CUDA
#include "runtime/cuda/cuda_compute.h"
#endif

namespace meshseal::runtime {

std::vector<std::string> ComputeNames() {
  std::vector<std::string> names = {std::string(ReferenceBackend::kName)};
#ifdef MESHSEAL_CUDA
  names.emplace_back(kCudaCompute);
  names.emplace_back(kCudaLoopbackCompute);
#endif
  return names;
}

absl::StatusOr<std::shared_ptr<Compute>> MakeCompute(absl::string_view name,
                                                     [[maybe_unused]] bool without_management_library) {
  if (name != kCudaCompute && name != kCudaLoopbackCompute) return MakeHostCompute(name);
#ifdef MESHSEAL_CUDA
  const absl::Status devices = cuda::CheckDevices();
  if (!devices.ok()) {
    return Refuse(ReasonOf(devices).value_or(Reason::kBug), absl::StrCat("backend '", name, "': ", devices.message()));
  }
  cuda::CudaOptions options;
  options.without_management_library = without_management_library;
  return name == kCudaCompute ? cuda::MakeNcclCompute(options) : cuda::MakeLoopbackCompute(options);
#else
  return Refuse(Reason::kNotBuilt, absl::StrCat("backend '", name,
                                                "' is not built in: build with -DMESHSEAL_CUDA=ON (`cmake --preset "
                                                "cuda`), which needs CUDA 13 and NCCL"));
#endif
}

}  // namespace meshseal::runtime
