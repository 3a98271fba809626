// Ranks as MPI processes, of the C interface without an MPI: libmeshseal. There is never a world.
#include "runtime/c_api/error.h"
#include "runtime/c_api/world_handle.h"
#include "schema/reason.h"

meshseal_error* meshseal_mpi_start(const meshseal_mpi_options*, meshseal_world**) {
  namespace c_api = meshseal::runtime::c_api;
  return c_api::Call([] {
    return Refuse(meshseal::Reason::kNotBuilt,
                  "libmeshseal has no MPI: link libmeshseal_mpi to run ranks as processes");
  });
}

uint32_t meshseal_world_rank(const meshseal_world*) { return 0; }

uint32_t meshseal_world_size(const meshseal_world*) { return 0; }

void meshseal_world_finish(meshseal_world*, const meshseal_error*, int32_t) {}
