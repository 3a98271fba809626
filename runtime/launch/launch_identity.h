// Who a process is among those that a launcher started with it: the one place that reads the launchers' variables.
//
// The table of launchers is launchers.def. What counts as there:
// - Open MPI: its rank is set.
// - Slurm: a task of a job step. A batch script, and whatever it starts without srun, sees SLURM_PROCID=0, which is the
//   script's number and nobody's rank; its SLURM_STEP_ID is missing or one of the reserved numbers. Inside Open MPI, a
//   step of one task on each node is that of Open MPI's own daemons, and says nothing of the ranks below them.
// - torchrun: TORCHELASTIC_RUN_ID or MASTER_ADDR beside a rank or a world.
// All that are there must agree.
#ifndef MESHSEAL_RUNTIME_LAUNCH_LAUNCH_IDENTITY_H_
#define MESHSEAL_RUNTIME_LAUNCH_LAUNCH_IDENTITY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/launch/environment.h"

namespace meshseal::runtime {

enum class Launcher : uint8_t {
#define MESHSEAL_LAUNCHER(enumerator, name, rank, world, local_rank, local_size) enumerator,
#include "runtime/launch/launchers.def"
#undef MESHSEAL_LAUNCHER
};

const char* NameOf(Launcher launcher);

struct LaunchIdentity {
  Launcher launcher{};
  uint32_t rank = 0;   // below world
  uint32_t world = 0;  // ranks started together
  uint32_t local_rank = 0;
  std::optional<uint32_t> local_size;  // ranks on this host; not every launcher tells
};

// Nothing for a process that no launcher started. Reasons: kUsage for a variable that is missing beside another, is no
// plain decimal number or contradicts another launcher's, for a local rank outside its host, and for torchrun alone,
// under which MPI would start as a world of 1; kWorldSize for a rank outside its world. The text names variables and
// values.
absl::StatusOr<std::optional<LaunchIdentity>> ResolveLaunchIdentity(const Environment& environment);

// Compares with what MPI says after it has started. Without an identity MPI must be alone. Reason kWorldSize.
absl::Status CheckAgainstMpi(const std::optional<LaunchIdentity>& identity, uint32_t mpi_rank, uint32_t mpi_size);

// "rank 2 of 4, local rank 2 of 2, by Open MPI"; "a single process" without an identity.
std::string IdentityText(const std::optional<LaunchIdentity>& identity);

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_LAUNCH_LAUNCH_IDENTITY_H_
