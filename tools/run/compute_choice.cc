#include "tools/run/compute_choice.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/session/named_compute.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::tools {
namespace {

using runtime::kCudaCompute;
using runtime::kCudaLoopbackCompute;

constexpr absl::string_view kNccl = "nccl";
constexpr absl::string_view kLoopback = "loopback";
constexpr absl::string_view kInproc = "inproc";

bool HasCuda() {
  const std::vector<std::string> names = runtime::ComputeNames();
  return std::find(names.begin(), names.end(), kCudaCompute) != names.end();
}

}  // namespace

std::vector<std::string> BuiltBackends() {
  std::vector<std::string> names = runtime::ComputeNames();
  names.erase(std::remove(names.begin(), names.end(), kCudaLoopbackCompute),
              names.end());  // one of cuda's kinds of ranks
  return names;
}

absl::StatusOr<std::string> RanksOf(absl::string_view backend, absl::string_view asked) {
  if (backend == kCudaCompute) {
    if (!HasCuda()) return runtime::MakeCompute(backend, false).status();
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

absl::StatusOr<std::shared_ptr<runtime::Compute>> ComputeOf(absl::string_view backend, absl::string_view ranks,
                                                            bool without_management_library) {
  return runtime::MakeCompute(backend == kCudaCompute && ranks == kLoopback ? kCudaLoopbackCompute : backend,
                              without_management_library);
}

}  // namespace meshseal::tools
