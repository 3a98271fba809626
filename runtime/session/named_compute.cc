#include "runtime/session/named_compute.h"

#include "absl/strings/str_cat.h"
#include "runtime/reference/reference_backend.h"
#include "schema/reason.h"
#include "schema/status_macros.h"
#ifdef MESHSEAL_CUDA
#include "runtime/cuda/cuda_compute.h"
#endif

namespace meshseal::runtime {
namespace {

constexpr absl::string_view kCuda = "cuda";
constexpr absl::string_view kCudaLoopback = "cuda-loopback";

}  // namespace

std::vector<std::string> ComputeNames() {
  std::vector<std::string> names = {std::string(ReferenceBackend::kName)};
#ifdef MESHSEAL_CUDA
  names.emplace_back(kCuda);
  names.emplace_back(kCudaLoopback);
#endif
  return names;
}

absl::StatusOr<std::shared_ptr<Compute>> MakeCompute(absl::string_view name,
                                                     [[maybe_unused]] bool without_management_library) {
  if (name != kCuda && name != kCudaLoopback) return MakeHostCompute(name);
#ifdef MESHSEAL_CUDA
  const absl::Status devices = cuda::CheckDevices();
  if (!devices.ok()) {
    return Refuse(ReasonOf(devices).value_or(Reason::kBug), absl::StrCat("backend '", name, "': ", devices.message()));
  }
  cuda::CudaOptions options;
  options.without_management_library = without_management_library;
  return name == kCuda ? cuda::MakeNcclCompute(options) : cuda::MakeLoopbackCompute(options);
#else
  return Refuse(Reason::kNotBuilt, absl::StrCat("backend '", name,
                                                "' is not built in: build with -DMESHSEAL_CUDA=ON (`cmake --preset "
                                                "cuda`), which needs CUDA 13 and NCCL"));
#endif
}

}  // namespace meshseal::runtime
