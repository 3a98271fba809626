// What choosing a token's experts takes of shared memory: nearly all that a kernel's need of it depends on a model. No
// Abseil here: device code reads it.
#ifndef MESHSEAL_SCHEMA_ROUTE_WORKSPACE_H_
#define MESHSEAL_SCHEMA_ROUTE_WORKSPACE_H_

#include <cstdint>

namespace meshseal {

// What every device gives a block of threads, and the most that kernels ask for, in bytes.
inline constexpr uint64_t kKernelSharedBytes = uint64_t{48} << 10;

// Bytes of the warp that has one token: float64 scores and ids of the chosen, logits and ranks of all experts, ranks of
// groups; whole 16 bytes.
constexpr uint64_t RouteWorkspaceBytes(uint64_t experts, uint64_t top_k, uint64_t groups) {
  const uint64_t bytes = top_k * 8 + (2 * experts + groups) * 4 + top_k * 4;
  return (bytes + 15) / 16 * 16;
}

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_ROUTE_WORKSPACE_H_
