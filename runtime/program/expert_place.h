// Where a rank holds an expert, and which of its copies computes a slot. Device code reads it.
#ifndef MESHSEAL_RUNTIME_PROGRAM_EXPERT_PLACE_H_
#define MESHSEAL_RUNTIME_PROGRAM_EXPERT_PLACE_H_

#include <cstdint>

#include "runtime/host_device.h"

namespace meshseal::runtime {

// An expert of a layer, as one rank sees it.
struct ExpertPlace {
  int32_t local = -1;   // its local number; -1 when the rank does not hold it
  uint32_t copy = 0;    // which of its copies the rank holds
  uint32_t copies = 1;  // how many ranks of the ep axis hold it

  // The local expert that computes a slot of `token`; -1 for a slot of another rank. Of an expert with copies, number
  // token mod copies computes it, by the caller's number of the token: so neither chunk nor phase decides.
  MESHSEAL_HOST_DEVICE int32_t LocalFor(uint64_t token) const { return token % copies == copy ? local : -1; }

  friend bool operator==(const ExpertPlace&, const ExpertPlace&) = default;
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_PROGRAM_EXPERT_PLACE_H_
