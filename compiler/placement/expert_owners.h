// Which ranks of the ep axis hold which experts of a layer. Pure functions of small numbers: no manifest, no plan.
#ifndef MESHSEAL_COMPILER_PLACEMENT_EXPERT_OWNERS_H_
#define MESHSEAL_COMPILER_PLACEMENT_EXPERT_OWNERS_H_

#include <cstdint>
#include <vector>

#include "schema/plan.h"

namespace meshseal::compiler {

// Rank r holds as many experts as part r of EvenEnds(experts + copies, ep), none of them twice. Its locals are its
// shards by expert, then its copies by expert.
struct ExpertOwners {
  std::vector<ExpertShard> shards;  // per expert
  std::vector<ExpertCopy> copies;   // ascending by (owner, local)
  friend bool operator==(const ExpertOwners&, const ExpertOwners&) = default;
};

// All functions take 1 <= experts, 1 <= ep <= experts + copies <= experts * ep.

// Shards contiguous, the first (experts mod ep) owners with one more, or neighbours on neighbouring owners. Copies fill
// the room that is left: no expert has two more of them than another.
ExpertOwners ContiguousOwners(uint32_t experts, uint32_t copies, uint32_t ep);
ExpertOwners RoundRobinOwners(uint32_t experts, uint32_t copies, uint32_t ep);

// Owners for a measured load: `slots` of each expert, less than 2^63 in all. The busiest experts get the copies; an
// expert's shard is on the lowest of its ranks. BusiestLoad is at most that of ContiguousOwners for the same numbers.
// Copies may still make a rank busier than contiguous shards without copies would: a copy takes a place on some rank
// even where no expert is busier than the others, and shares are rounded up.
ExpertOwners BalancedOwners(const std::vector<uint64_t>& slots, uint32_t copies, uint32_t ep);

// How many experts each rank holds, copies included.
std::vector<uint32_t> ExpertsPerOwner(const ExpertOwners& owners, uint32_t ep);

// The most slots of a rank. An expert's copies share its slots; a share is rounded up. `slots` as above.
uint64_t BusiestLoad(const ExpertOwners& owners, const std::vector<uint64_t>& slots, uint32_t ep);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_PLACEMENT_EXPERT_OWNERS_H_
