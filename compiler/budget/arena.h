// Work arenas: places buffers so that those that are live at the same step share no byte.
#ifndef MESHSEAL_COMPILER_BUDGET_ARENA_H_
#define MESHSEAL_COMPILER_BUDGET_ARENA_H_

#include <cstdint>
#include <vector>

#include "schema/plan.h"

namespace meshseal::compiler {

inline constexpr uint64_t kBufferAlignment = 64;  // a cache line

struct Demand {
  uint64_t bytes = 0;
  size_t first = 0;  // first and last step at which the bytes must be intact
  size_t last = 0;
};

struct Arena {
  std::vector<Buffer> buffers;  // one per demand
  uint64_t bytes = 0;           // multiple of the alignment
};

// Largest demand first, each at the lowest offset where no live neighbour stands. The sum of all demands must fit 64
// bits.
Arena PlaceBuffers(const std::vector<Demand>& demands);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_BUDGET_ARENA_H_
