// Ranks as threads of one process: a group whose members meet in shared memory.
//
// A sum is an all-gather and a rank-order sum: each member copies its addend into its own slice, waits for
// all, then adds the slices of all members. The slices are shared, so a member holds one of them where a plan
// charges a copy of each.
#ifndef MESHSEAL_RUNTIME_COMM_INPROC_H_
#define MESHSEAL_RUNTIME_COMM_INPROC_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/comm/communicator.h"

namespace meshseal::runtime {

struct InprocOptions {
  // The longest one wait may last, counted from the waiting member's own arrival.
  std::chrono::milliseconds deadline{30'000};
};

// One end per member, in order; `members` are their world ranks and not empty. The ends share the group's
// memory, which lives as long as any of them.
std::vector<std::unique_ptr<Communicator>> MakeInprocGroup(std::vector<uint32_t> members, const InprocOptions& options);

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_COMM_INPROC_H_
