// Ranks as threads of one process: messages are copied from the sender's memory into the receiver's, once.
#ifndef MESHSEAL_RUNTIME_COMM_INPROC_H_
#define MESHSEAL_RUNTIME_COMM_INPROC_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/comm/endpoint.h"

namespace meshseal::runtime {

// One endpoint per rank, of which `scope` in a row fail together. They share what they meet in, which lives as long as
// any of them.
std::vector<std::unique_ptr<Endpoint>> MakeInprocEndpoints(uint32_t world, uint32_t scope);

// All ranks of any world as threads of this process.
std::shared_ptr<RankWorld> MakeInprocWorld();

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_COMM_INPROC_H_
