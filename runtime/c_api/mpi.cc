// Ranks as MPI processes, of the C interface with an MPI: libmeshseal_mpi.
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/c_api/error.h"
#include "runtime/c_api/world_handle.h"
#include "runtime/comm/mpi_world.h"
#include "runtime/launch/environment.h"
#include "runtime/launch/launch_identity.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::runtime::c_api {
namespace {

absl::StatusOr<std::unique_ptr<meshseal_world>> Start(const meshseal_mpi_options* given) {
  MESHSEAL_RETURN_IF_ERROR(CheckGiven(given, "options"));
  MESHSEAL_RETURN_IF_ERROR(CheckStructSize(given->struct_size, sizeof(*given), "options"));
  MESHSEAL_RETURN_IF_ERROR(CheckWait(given->start_deadline_ms, "options->start_deadline_ms"));
  MESHSEAL_RETURN_IF_ERROR(CheckWait(given->end_deadline_ms, "options->end_deadline_ms"));
  MESHSEAL_ASSIGN_OR_RETURN(const std::optional<LaunchIdentity> identity, ResolveLaunchIdentity(ProcessEnvironment()));
  MpiWorld::StartOptions options;
  options.start_deadline = std::chrono::milliseconds(given->start_deadline_ms);
  options.end_deadline = std::chrono::milliseconds(given->end_deadline_ms);
  options.give_up = [](const absl::Status& cause) {
    std::fprintf(stderr, "meshseal: %s\n", std::string(cause.message()).c_str());
  };
  auto world = std::make_unique<meshseal_world>();
  MESHSEAL_ASSIGN_OR_RETURN(world->mpi, MpiWorld::Start(options));
  MESHSEAL_RETURN_IF_ERROR(CheckAgainstMpi(identity, world->mpi->rank(), world->mpi->size()));
  world->ranks = world->mpi;
  return world;
}

}  // namespace
}  // namespace meshseal::runtime::c_api

meshseal_error* meshseal_mpi_start(const meshseal_mpi_options* options, meshseal_world** world) {
  namespace c_api = meshseal::runtime::c_api;
  return c_api::Call([&]() -> absl::Status {
    MESHSEAL_RETURN_IF_ERROR(c_api::CheckGiven(world, "world"));
    MESHSEAL_ASSIGN_OR_RETURN(std::unique_ptr<meshseal_world> started, c_api::Start(options));
    *world = started.release();
    return absl::OkStatus();
  });
}

uint32_t meshseal_world_rank(const meshseal_world* world) { return world == nullptr ? 0 : world->mpi->rank(); }

uint32_t meshseal_world_size(const meshseal_world* world) { return world == nullptr ? 0 : world->mpi->size(); }

void meshseal_world_finish(meshseal_world* world, const meshseal_error* error, int32_t others) {
  using Others = meshseal::runtime::MpiWorld::Others;
  if (world == nullptr) return;
  const std::unique_ptr<meshseal_world> owned(world);
  world->mpi->Finish(error == nullptr ? absl::OkStatus() : meshseal::runtime::c_api::StatusOf(*error),
                     others == MESHSEAL_OTHERS_GO_ON ? Others::kGoOn : Others::kEnd);
}
