// What a meshseal_world is.
#ifndef MESHSEAL_RUNTIME_C_API_WORLD_HANDLE_H_
#define MESHSEAL_RUNTIME_C_API_WORLD_HANDLE_H_

#include <memory>

#include "runtime/comm/endpoint.h"
#include "runtime/include/meshseal/meshseal.h"

namespace meshseal::runtime {
class MpiWorld;
}

struct meshseal_world {
  std::shared_ptr<meshseal::runtime::MpiWorld> mpi;
  std::shared_ptr<meshseal::runtime::RankWorld> ranks;  // the same
};

#endif  // MESHSEAL_RUNTIME_C_API_WORLD_HANDLE_H_
