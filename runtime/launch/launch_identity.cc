#include "runtime/launch/launch_identity.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "schema/quoted_name.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::runtime {
namespace {

struct LauncherRow {
  Launcher launcher;
  const char* name;
  const char* rank;
  const char* world;
  const char* local_rank;
  const char* local_size;  // "": it tells none
};

constexpr LauncherRow kLaunchers[] = {
#define MESHSEAL_LAUNCHER(enumerator, name, rank, world, local_rank, local_size) \
  {Launcher::enumerator, name, rank, world, local_rank, local_size},
#include "runtime/launch/launchers.def"
#undef MESHSEAL_LAUNCHER
};

// Step ids from here on are no job steps: the batch script, an interactive shell, what was adopted.
constexpr uint32_t kFirstReservedStep = 0xfffffff0;

absl::Status Usage(const std::string& text) { return Refuse(Reason::kUsage, absl::StrCat("launch: ", text)); }

// Digits alone, without a zero in front, within 32 bits.
absl::StatusOr<uint32_t> NumberIn(const char* variable, const std::string& value) {
  const bool digits = !value.empty() && value.find_first_not_of("0123456789") == std::string::npos;
  uint32_t number = 0;
  if (digits && (value.size() == 1 || value[0] != '0') && absl::SimpleAtoi(value, &number)) return number;
  return Usage(absl::StrCat(variable, " is ", QuotedName(value), ", expected a number"));
}

absl::StatusOr<std::optional<uint32_t>> OptionalNumber(const Environment& environment, const char* variable) {
  const std::optional<std::string> value = environment(variable);
  if (!value.has_value()) return std::nullopt;
  MESHSEAL_ASSIGN_OR_RETURN(const uint32_t number, NumberIn(variable, *value));
  return std::optional<uint32_t>(number);
}

bool IsSet(const Environment& environment, const char* variable) { return environment(variable).has_value(); }

absl::StatusOr<bool> IsThere(const LauncherRow& row, const Environment& environment) {
  if (row.launcher == Launcher::kTorchrun) {
    return (IsSet(environment, "TORCHELASTIC_RUN_ID") || IsSet(environment, "MASTER_ADDR")) &&
           (IsSet(environment, row.rank) || IsSet(environment, row.world));
  }
  if (!IsSet(environment, row.rank)) return false;
  if (row.launcher != Launcher::kSlurm) return true;
  MESHSEAL_ASSIGN_OR_RETURN(const std::optional<uint32_t> step, OptionalNumber(environment, "SLURM_STEP_ID"));
  if (!step.has_value() || *step >= kFirstReservedStep) return false;
  if (!IsSet(environment, kLaunchers[0].rank)) return true;
  MESHSEAL_ASSIGN_OR_RETURN(const std::optional<uint32_t> nodes, OptionalNumber(environment, "SLURM_STEP_NUM_NODES"));
  MESHSEAL_ASSIGN_OR_RETURN(const std::optional<uint32_t> tasks, OptionalNumber(environment, row.world));
  return !nodes.has_value() || nodes != tasks;  // else the step of Open MPI's daemons
}

absl::StatusOr<LaunchIdentity> Read(const LauncherRow& row, const Environment& environment) {
  LaunchIdentity identity;
  identity.launcher = row.launcher;
  const auto read = [&](const char* variable, uint32_t* number) -> absl::Status {
    MESHSEAL_ASSIGN_OR_RETURN(const std::optional<uint32_t> value, OptionalNumber(environment, variable));
    if (!value.has_value()) {
      return Usage(absl::StrCat(variable, " is not set, although other variables of ", row.name, " are"));
    }
    *number = *value;
    return absl::OkStatus();
  };
  MESHSEAL_RETURN_IF_ERROR(read(row.rank, &identity.rank));
  MESHSEAL_RETURN_IF_ERROR(read(row.world, &identity.world));
  MESHSEAL_RETURN_IF_ERROR(read(row.local_rank, &identity.local_rank));
  if (*row.local_size != '\0') {
    MESHSEAL_ASSIGN_OR_RETURN(identity.local_size, OptionalNumber(environment, row.local_size));
  }
  if (identity.rank >= identity.world) {
    return Refuse(Reason::kWorldSize, absl::StrCat("launch: ", row.rank, " is ", identity.rank, " and ", row.world,
                                                   " is ", identity.world, ": there is no such rank"));
  }
  const uint32_t most = identity.local_size.value_or(identity.world);
  if (identity.local_rank >= most) {
    return Usage(absl::StrCat(row.local_rank, " is ", identity.local_rank, " and ",
                              identity.local_size.has_value() ? row.local_size : row.world, " is ", most,
                              ": there is no such local rank"));
  }
  return identity;
}

absl::Status CheckAgree(const LauncherRow& a, const LaunchIdentity& x, const LauncherRow& b, const LaunchIdentity& y) {
  const auto same = [&](const char* in_a, uint32_t from_a, const char* in_b, uint32_t from_b) -> absl::Status {
    if (from_a == from_b) return absl::OkStatus();
    return Usage(absl::StrCat(a.name, " and ", b.name, " disagree: ", in_a, " is ", from_a, ", ", in_b, " is ", from_b,
                              "; unset the variables of the one that did not start this process"));
  };
  MESHSEAL_RETURN_IF_ERROR(same(a.rank, x.rank, b.rank, y.rank));
  MESHSEAL_RETURN_IF_ERROR(same(a.world, x.world, b.world, y.world));
  MESHSEAL_RETURN_IF_ERROR(same(a.local_rank, x.local_rank, b.local_rank, y.local_rank));
  if (!x.local_size.has_value() || !y.local_size.has_value()) return absl::OkStatus();
  return same(a.local_size, *x.local_size, b.local_size, *y.local_size);
}

}  // namespace

const char* NameOf(Launcher launcher) { return kLaunchers[static_cast<size_t>(launcher)].name; }

absl::StatusOr<std::optional<LaunchIdentity>> ResolveLaunchIdentity(const Environment& environment) {
  const LauncherRow* first = nullptr;
  LaunchIdentity identity;
  for (const LauncherRow& row : kLaunchers) {
    MESHSEAL_ASSIGN_OR_RETURN(const bool there, IsThere(row, environment));
    if (!there) continue;
    MESHSEAL_ASSIGN_OR_RETURN(const LaunchIdentity read, Read(row, environment));
    if (first != nullptr) {
      MESHSEAL_RETURN_IF_ERROR(CheckAgree(*first, identity, row, read));
      continue;
    }
    first = &row;
    identity = read;
  }
  if (first == nullptr) return std::optional<LaunchIdentity>();
  if (identity.launcher == Launcher::kTorchrun) {
    return Usage(absl::StrCat("torchrun started rank ", identity.rank, " of ", identity.world, " (", first->rank, ", ",
                              first->world,
                              "), and MPI would start as a world of 1 under it: start the ranks with mpirun or srun"));
  }
  return std::optional<LaunchIdentity>(identity);
}

absl::Status CheckAgainstMpi(const std::optional<LaunchIdentity>& identity, uint32_t mpi_rank, uint32_t mpi_size) {
  const uint32_t rank = identity.has_value() ? identity->rank : 0;
  const uint32_t world = identity.has_value() ? identity->world : 1;
  if (rank == mpi_rank && world == mpi_size) return absl::OkStatus();
  return Refuse(Reason::kWorldSize, absl::StrCat("launch: this is ", IdentityText(identity),
                                                 ", but MPI started it as rank ", mpi_rank, " of ", mpi_size));
}

std::string IdentityText(const std::optional<LaunchIdentity>& identity) {
  if (!identity.has_value()) return "a single process";
  std::string text =
      absl::StrCat("rank ", identity->rank, " of ", identity->world, ", local rank ", identity->local_rank);
  if (identity->local_size.has_value()) absl::StrAppend(&text, " of ", *identity->local_size);
  return absl::StrCat(text, ", by ", NameOf(identity->launcher));
}

}  // namespace meshseal::runtime
