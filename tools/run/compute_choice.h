// What computes for a command's ranks, and where they are, by the flags --backend and --ranks.
#ifndef MESHSEAL_TOOLS_RUN_COMPUTE_CHOICE_H_
#define MESHSEAL_TOOLS_RUN_COMPUTE_CHOICE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/session/compute.h"

namespace meshseal::tools {

// By name, those of this program.
std::vector<std::string> BuiltBackends();

// Where the ranks of `backend` are, when `asked` for; empty: the backend's own choice, threads. Touches no device.
// Reasons kNotBuilt for a backend that this program does not have, kUsage for ranks that are not the backend's.
absl::StatusOr<std::string> RanksOf(absl::string_view backend, absl::string_view asked);

// What computes, for `ranks` of RanksOf; the last as in MakeCompute. Reasons kNotBuilt; kDevice where there is no
// device for it.
absl::StatusOr<std::shared_ptr<runtime::Compute>> ComputeOf(absl::string_view backend, absl::string_view ranks,
                                                            bool without_management_library);

}  // namespace meshseal::tools

#endif  // MESHSEAL_TOOLS_RUN_COMPUTE_CHOICE_H_
