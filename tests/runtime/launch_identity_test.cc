#include "runtime/launch/launch_identity.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "schema/reason.h"

namespace meshseal::runtime {
namespace {

using Variables = std::map<std::string, std::string>;

Environment Of(Variables variables) {
  return [variables = std::move(variables)](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

Variables OpenMpi(const std::string& rank, const std::string& world, const std::string& local,
                  const std::string& size) {
  return {{"OMPI_COMM_WORLD_RANK", rank},
          {"OMPI_COMM_WORLD_SIZE", world},
          {"OMPI_COMM_WORLD_LOCAL_RANK", local},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", size}};
}

// A task of a job step over `nodes` nodes. The job itself has more tasks.
Variables Slurm(const std::string& rank, const std::string& world, const std::string& local, const std::string& nodes) {
  return {{"SLURM_STEP_ID", "0"},   {"SLURM_PROCID", rank},          {"SLURM_STEP_NUM_TASKS", world},
          {"SLURM_LOCALID", local}, {"SLURM_STEP_NUM_NODES", nodes}, {"SLURM_NTASKS", "64"}};
}

Variables Torchrun(const std::string& rank, const std::string& world, const std::string& local) {
  return {{"RANK", rank}, {"WORLD_SIZE", world}, {"LOCAL_RANK", local}, {"MASTER_ADDR", "node0"}};
}

Variables With(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

Variables Without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

std::string Resolved(const Variables& variables) {
  const absl::StatusOr<std::optional<LaunchIdentity>> identity = ResolveLaunchIdentity(Of(variables));
  return identity.ok() ? IdentityText(*identity) : std::string(identity.status().message());
}

std::optional<Reason> Refused(const Variables& variables) {
  return ReasonOf(ResolveLaunchIdentity(Of(variables)).status());
}

TEST(LaunchIdentityTest, EveryLauncherIsRead) {
  EXPECT_EQ(Resolved({}), "a single process");
  EXPECT_EQ(Resolved(OpenMpi("2", "4", "0", "2")), "rank 2 of 4, local rank 0 of 2, by Open MPI");
  EXPECT_EQ(Resolved(Slurm("3", "4", "1", "2")), "rank 3 of 4, local rank 1, by Slurm");
  EXPECT_EQ(Resolved(OpenMpi("0", "1", "0", "1")), "rank 0 of 1, local rank 0 of 1, by Open MPI");
  // Not every version of Open MPI tells the local size.
  EXPECT_EQ(Resolved(Without(OpenMpi("2", "4", "0", "2"), "OMPI_COMM_WORLD_LOCAL_SIZE")),
            "rank 2 of 4, local rank 0, by Open MPI");
}

TEST(LaunchIdentityTest, LaunchersThatAgreeAreOne) {
  const Variables all = With(With(OpenMpi("2", "4", "2", "4"), Slurm("2", "4", "2", "1")), Torchrun("2", "4", "2"));
  EXPECT_EQ(Resolved(all), "rank 2 of 4, local rank 2 of 4, by Open MPI");
  EXPECT_EQ(Resolved(With(Slurm("2", "4", "2", "1"), Torchrun("2", "4", "2"))), "rank 2 of 4, local rank 2, by Slurm");
}

// What mpirun starts inside a batch script sees the script's SLURM_PROCID; on further nodes, that of Open MPI's daemon.
TEST(LaunchIdentityTest, OnlyATaskOfAJobStepIsSlurms) {
  const Variables batch = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "0"}};
  EXPECT_EQ(Resolved(batch), "a single process");
  EXPECT_EQ(Resolved(With(OpenMpi("3", "4", "1", "2"), batch)), "rank 3 of 4, local rank 1 of 2, by Open MPI");
  for (const char* reserved : {"4294967280", "4294967290", "4294967291", "4294967292", "4294967294"}) {
    EXPECT_EQ(Resolved(With(Slurm("0", "4", "0", "2"), {{"SLURM_STEP_ID", reserved}})), "a single process") << reserved;
  }
  EXPECT_EQ(Resolved(With(Slurm("0", "4", "0", "2"), {{"SLURM_STEP_ID", "4294967279"}})),
            "rank 0 of 4, local rank 0, by Slurm");
  EXPECT_EQ(Resolved(With(OpenMpi("5", "8", "1", "4"), Slurm("1", "2", "0", "2"))),
            "rank 5 of 8, local rank 1 of 4, by Open MPI");
  EXPECT_EQ(Resolved(Slurm("1", "2", "0", "2")), "rank 1 of 2, local rank 0, by Slurm");
}

// M07
TEST(LaunchIdentityTest, ARankOutsideItsWorldIsRefused) {
  EXPECT_EQ(Resolved(Torchrun("4", "4", "0")), "launch: RANK is 4 and WORLD_SIZE is 4: there is no such rank");
  EXPECT_EQ(Refused(Torchrun("4", "4", "0")), Reason::kWorldSize);
  EXPECT_EQ(Resolved(OpenMpi("7", "4", "0", "1")),
            "launch: OMPI_COMM_WORLD_RANK is 7 and OMPI_COMM_WORLD_SIZE is 4: there is no such rank");
  EXPECT_EQ(Resolved(Slurm("0", "0", "0", "1")),
            "launch: SLURM_PROCID is 0 and SLURM_STEP_NUM_TASKS is 0: there is no such rank");
  EXPECT_EQ(Resolved(OpenMpi("1", "4", "2", "2")),
            "launch: OMPI_COMM_WORLD_LOCAL_RANK is 2 and OMPI_COMM_WORLD_LOCAL_SIZE is 2: there is no such local rank");
  EXPECT_EQ(Refused(OpenMpi("1", "4", "2", "2")), Reason::kUsage);
  EXPECT_EQ(Resolved(Slurm("1", "4", "4", "1")),
            "launch: SLURM_LOCALID is 4 and SLURM_STEP_NUM_TASKS is 4: there is no such local rank");
}

// M08
TEST(LaunchIdentityTest, LaunchersThatDisagreeAreRefused) {
  const std::string undo = "; unset the variables of the one that did not start this process";
  EXPECT_EQ(Resolved(With(OpenMpi("1", "4", "1", "4"), Torchrun("2", "4", "1"))),
            "launch: Open MPI and torchrun disagree: OMPI_COMM_WORLD_RANK is 1, RANK is 2" + undo);
  EXPECT_EQ(Refused(With(OpenMpi("1", "4", "1", "4"), Torchrun("2", "4", "1"))), Reason::kUsage);
  EXPECT_EQ(Resolved(With(OpenMpi("1", "4", "1", "4"), Torchrun("1", "8", "1"))),
            "launch: Open MPI and torchrun disagree: OMPI_COMM_WORLD_SIZE is 4, WORLD_SIZE is 8" + undo);
  EXPECT_EQ(Resolved(With(Slurm("1", "4", "1", "1"), Torchrun("1", "4", "0"))),
            "launch: Slurm and torchrun disagree: SLURM_LOCALID is 1, LOCAL_RANK is 0" + undo);
  EXPECT_EQ(Resolved(With(OpenMpi("1", "4", "1", "4"), Slurm("3", "4", "1", "1"))),
            "launch: Open MPI and Slurm disagree: OMPI_COMM_WORLD_RANK is 1, SLURM_PROCID is 3" + undo);
  EXPECT_EQ(Resolved(With(With(OpenMpi("1", "4", "1", "4"), Torchrun("1", "4", "1")), {{"LOCAL_WORLD_SIZE", "2"}})),
            "launch: Open MPI and torchrun disagree: OMPI_COMM_WORLD_LOCAL_SIZE is 4, LOCAL_WORLD_SIZE is 2" + undo);
}

// M09
TEST(LaunchIdentityTest, WhatIsNoPlainNumberIsNamedWithItsValue) {
  EXPECT_EQ(Resolved(Torchrun("0", "4", "gpu0")), "launch: LOCAL_RANK is 'gpu0', expected a number");
  EXPECT_EQ(Refused(Torchrun("0", "4", "gpu0")), Reason::kUsage);
  for (const char* value : {"", " 1", "1 ", "+1", "-1", "01", "0x1", "1.0", "1e0", "4294967296", "1\n"}) {
    for (const Variables& variables :
         {OpenMpi(value, "4", "0", "1"), OpenMpi("0", value, "0", "1"), OpenMpi("0", "4", value, "1"),
          OpenMpi("0", "4", "0", value), Slurm(value, "4", "0", "1"), Slurm("0", value, "0", "1"),
          Slurm("0", "4", value, "1"), Torchrun(value, "4", "0"), Torchrun("0", value, "0"), Torchrun("0", "4", value),
          With(Slurm("0", "4", "0", "1"), {{"SLURM_STEP_ID", value}})}) {
      EXPECT_EQ(Refused(variables), Reason::kUsage) << value;
    }
  }
  EXPECT_EQ(Resolved(OpenMpi("1\x1b[2J", "4", "0", "1")),
            "launch: OMPI_COMM_WORLD_RANK is '1\\033[2J', expected a number");
  EXPECT_EQ(Resolved(With(Slurm("0", "4", "0", "1"), {{"SLURM_STEP_ID", "batch"}})),
            "launch: SLURM_STEP_ID is 'batch', expected a number");
}

TEST(LaunchIdentityTest, HalfAnIdentityIsRefused) {
  EXPECT_EQ(Resolved(Without(OpenMpi("1", "4", "1", "4"), "OMPI_COMM_WORLD_SIZE")),
            "launch: OMPI_COMM_WORLD_SIZE is not set, although other variables of Open MPI are");
  EXPECT_EQ(Resolved(Without(Slurm("1", "4", "1", "1"), "SLURM_LOCALID")),
            "launch: SLURM_LOCALID is not set, although other variables of Slurm are");
  EXPECT_EQ(Resolved(Without(Torchrun("1", "4", "1"), "RANK")),
            "launch: RANK is not set, although other variables of torchrun are");
}

TEST(LaunchIdentityTest, TorchrunAloneIsRefusedByName) {
  const std::string text =
      "launch: torchrun started rank 1 of 4 (RANK, WORLD_SIZE), and MPI would start as a world of 1 under it: start "
      "the "
      "ranks with mpirun or srun";
  EXPECT_EQ(Resolved(Torchrun("1", "4", "1")), text);
  EXPECT_EQ(Refused(Torchrun("1", "4", "1")), Reason::kUsage);
  const Variables elastic = With(Without(Torchrun("1", "4", "1"), "MASTER_ADDR"), {{"TORCHELASTIC_RUN_ID", "none"}});
  EXPECT_EQ(Resolved(elastic), text);
  // RANK alone is anybody's variable, and so is MASTER_ADDR.
  EXPECT_EQ(Resolved({{"RANK", "general"}}), "a single process");
  EXPECT_EQ(Resolved({{"MASTER_ADDR", "node0"}}), "a single process");
}

TEST(LaunchIdentityTest, MpiMustSayTheSame) {
  const std::optional<LaunchIdentity> identity = *ResolveLaunchIdentity(Of(OpenMpi("2", "4", "2", "4")));
  EXPECT_TRUE(CheckAgainstMpi(identity, 2, 4).ok());
  EXPECT_TRUE(CheckAgainstMpi(std::nullopt, 0, 1).ok());
  const absl::Status alone = CheckAgainstMpi(identity, 0, 1);
  EXPECT_EQ(alone.message(),
            "launch: this is rank 2 of 4, local rank 2 of 4, by Open MPI, but MPI started it as rank 0 of 1");
  EXPECT_EQ(ReasonOf(alone), Reason::kWorldSize);
  EXPECT_EQ(CheckAgainstMpi(identity, 3, 4).message(),
            "launch: this is rank 2 of 4, local rank 2 of 4, by Open MPI, but MPI started it as rank 3 of 4");
  EXPECT_EQ(CheckAgainstMpi(std::nullopt, 0, 2).message(),
            "launch: this is a single process, but MPI started it as rank 0 of 2");
}

TEST(EnvironmentTest, IsThatOfTheProcess) {
  ASSERT_EQ(::setenv("MESHSEAL_TEST_VARIABLE", "x=y", 1), 0);
  EXPECT_EQ(ProcessEnvironment()("MESHSEAL_TEST_VARIABLE"), "x=y");
  bool listed = false;
  for (const std::string& variable : ProcessVariables()) listed |= variable == "MESHSEAL_TEST_VARIABLE=x=y";
  EXPECT_TRUE(listed);
  ASSERT_EQ(::unsetenv("MESHSEAL_TEST_VARIABLE"), 0);
  EXPECT_EQ(ProcessEnvironment()("MESHSEAL_TEST_VARIABLE"), std::nullopt);
}

}  // namespace
}  // namespace meshseal::runtime
