// Says what this machine offers, and what the processes of this job can be reached on.
#ifndef MESHSEAL_TOOLS_RUN_DOCTOR_H_
#define MESHSEAL_TOOLS_RUN_DOCTOR_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace meshseal::tools {

// Prints to standard output, in `format` text or json (versioned, stable). Under mpirun or srun it starts MPI, as `run`
// would, so that its sockets are there, and rank 0 alone prints. A launcher's variables that cannot be right are part
// of what is printed. Reasons: those of RankLaunch::Start but for the variables.
absl::Status RunDoctor(absl::string_view format);

}  // namespace meshseal::tools

#endif  // MESHSEAL_TOOLS_RUN_DOCTOR_H_
