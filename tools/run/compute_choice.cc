#include "tools/run/compute_choice.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/reference/reference_backend.h"
#include "schema/reason.h"
#include "schema/status_macros.h"
#ifdef MESHSEAL_CUDA
#include "runtime/cuda/cuda_compute.h"
#endif

namespace meshseal::tools {
namespace {

constexpr absl::string_view kCuda = "cuda";
constexpr absl::string_view kNccl = "nccl";
constexpr absl::string_view kLoopback = "loopback";
constexpr absl::string_view kInproc = "inproc";

absl::Status CheckCudaBuilt() {
#ifdef MESHSEAL_CUDA
  return absl::OkStatus();
#else
  return Refuse(Reason::kNotBuilt,
                "backend 'cuda' is not built into this program: build with -DMESHSEAL_CUDA=ON (`cmake --preset cuda`), "
                "which needs CUDA 13 and NCCL");
#endif
}

}  // namespace

std::vector<std::string> BuiltBackends() {
  std::vector<std::string> names = {std::string(runtime::ReferenceBackend::kName)};
  if (CheckCudaBuilt().ok()) names.emplace_back(kCuda);
  return names;
}

absl::StatusOr<std::string> RanksOf(absl::string_view backend, absl::string_view asked) {
  if (backend == kCuda) {
    MESHSEAL_RETURN_IF_ERROR(CheckCudaBuilt());
    if (asked.empty()) return std::string(kNccl);
    if (asked != kInproc) return std::string(asked);
    return Refuse(Reason::kUsage,
                  "backend 'cuda' has ranks 'nccl' (threads, a GPU each), 'mpi' (processes, a GPU each) or 'loopback' "
                  "(threads that share a GPU, an emulation), not 'inproc'");
  }
  const std::vector<std::string> built = BuiltBackends();
  if (std::find(built.begin(), built.end(), backend) == built.end()) {
    return Refuse(Reason::kNotBuilt, absl::StrCat("backend '", backend, "' is not built, this program has '",
                                                  absl::StrJoin(built, "' and '"), "'"));
  }
  if (asked == kNccl || asked == kLoopback) {
    return Refuse(Reason::kUsage,
                  absl::StrCat("ranks '", asked, "' are those of --backend cuda, the backend is '", backend, "'"));
  }
  return std::string(asked.empty() ? kInproc : asked);
}

absl::StatusOr<std::shared_ptr<runtime::Compute>> ComputeOf(absl::string_view backend,
                                                            [[maybe_unused]] absl::string_view ranks) {
  if (backend != kCuda) return runtime::MakeHostCompute(backend);
#ifdef MESHSEAL_CUDA
  const absl::Status devices = cuda::CheckDevices();
  if (!devices.ok()) {
    return Refuse(ReasonOf(devices).value_or(Reason::kBug), absl::StrCat("backend 'cuda': ", devices.message()));
  }
  return ranks == kLoopback ? cuda::MakeLoopbackCompute({}) : cuda::MakeNcclCompute({});
#else
  return CheckCudaBuilt();
#endif
}

}  // namespace meshseal::tools
