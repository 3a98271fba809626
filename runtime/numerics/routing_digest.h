// 23 bits by which ranks see that they routed differently. A sum of one word for each slot, so that slots may be taken
// in any order and at the same time. It finds disagreement by accident, not forgery.
#ifndef MESHSEAL_RUNTIME_NUMERICS_ROUTING_DIGEST_H_
#define MESHSEAL_RUNTIME_NUMERICS_ROUTING_DIGEST_H_

#include <bit>
#include <cstdint>

#include "runtime/host_device.h"

namespace meshseal::runtime {

inline constexpr uint32_t kRoutingDigestBits = 23;

// Every bit of `word` changes about half of the result's: the finaliser of SplitMix64.
MESHSEAL_HOST_DEVICE constexpr uint64_t Mixed(uint64_t word) {
  word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ull;
  word = (word ^ (word >> 27)) * 0x94D049BB133111EBull;
  return word ^ (word >> 31);
}

// What a slot adds, modulo 2^64: of its number, its expert and the bits of its weight.
MESHSEAL_HOST_DEVICE constexpr uint64_t DigestOfSlot(uint64_t slot, int32_t expert, float weight) {
  const uint64_t choice = uint64_t{static_cast<uint32_t>(expert)} << 32 | std::bit_cast<uint32_t>(weight);
  return Mixed(Mixed(slot + 0x9E3779B97F4A7C15ull) ^ choice);
}

// The digest of a sum over slots.
MESHSEAL_HOST_DEVICE constexpr int64_t RoutingDigest(uint64_t sum) {
  return static_cast<int64_t>(Mixed(sum) >> (64 - kRoutingDigestBits));
}

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_NUMERICS_ROUTING_DIGEST_H_
