// What the kernels of a step share: sizes, the tokens of this step, the owner view, and failures. Plain data, the same
// on host and device; pointers are into device memory.
//
// T tokens of max_tokens, k slots per token, H hidden, E experts of the layer, as in runtime/backend/step_args.h. Grids
// are the worst case of max_tokens; how many tokens a step has is read from device memory, and blocks beyond them exit.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_STEP_PODS_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_STEP_PODS_H_

#include <cstdint>

#include "runtime/host_device.h"
#include "runtime/program/expert_place.h"

namespace meshseal::cuda {

// In device memory, written before each step.
struct StepTokens {
  uint64_t first_token = 0;  // the caller's number of token 0
  uint32_t tokens = 0;       // T, at most max_tokens
  uint32_t reserved = 0;
};
static_assert(sizeof(StepTokens) == 16);

struct StepGrid {
  const StepTokens* step = nullptr;
  uint32_t max_tokens = 0;
  uint32_t top_k = 0;
  uint32_t hidden = 0;
  uint32_t columns = 0;  // the rank's own
  bool gated = true;     // the experts have a gate
  MESHSEAL_HOST_DEVICE uint64_t max_slots() const { return uint64_t{max_tokens} * top_k; }
  MESHSEAL_HOST_DEVICE uint64_t products() const { return uint64_t{columns} * (gated ? 2 : 1); }
};

// The owner view of a step: the routing, and which rank computes a slot.
struct DeviceOwned {
  const int32_t* experts = nullptr;              // [T*k]
  const float* weights = nullptr;                // [T*k]
  const runtime::ExpertPlace* places = nullptr;  // [E]

  // The local expert that computes `slot`, a slot of the token with the caller's number `token`; -1 for a slot of
  // another rank.
  MESHSEAL_HOST_DEVICE int32_t LocalExpertFor(uint64_t slot, uint64_t token) const {
    const runtime::ExpertPlace& place = places[experts[slot]];
    return place.copies == 1 ? place.local : place.LocalFor(token);  // a division less
  }
  MESHSEAL_HOST_DEVICE int32_t LocalExpert(uint64_t slot, const StepTokens& step, uint32_t top_k) const {
    return LocalExpertFor(slot, step.first_token + slot / top_k);
  }
};

// The slots that this rank computes, grouped by local expert: as Grouping of runtime/backend/step_args.h.
struct DeviceGrouping {
  uint32_t capacity = 0;                 // grouped rows
  uint32_t local_experts = 0;            // L
  const int32_t* slot_of_row = nullptr;  // [capacity]
  const int32_t* first_row = nullptr;    // [L + 1]; not read in a step without tokens
};

// Slots that were computed: `uint32_t computed[T*k]`. `route` writes 0 for every slot; down writes 1 for a slot that it
// computed; `lane` counts them.

// A failure is one word, written by the one thread that owns its place; 0 where there is none. Its place tells the
// token, slot or row, so that the first in order is the rank's failure.
enum class FailureKind : uint8_t {
  kNone = 0,
  kRouterScore = 1,    // the router score of `expert` is not finite
  kOutput = 2,         // the output of `expert` is not finite; detail: its number among the token's slots
  kBound = 3,          // an addend of `expert` is not below the bound, or not finite; detail: its float32 bits
  kTokenId = 4,        // detail: the id, which is outside the token table
  kTokenTableRow = 5,  // detail: the id, whose row does not name different experts
  kGroupedRows = 6,    // detail: the grouped rows that are needed, more than the plan proves
};

// What stands for the shared expert where a failure names an expert.
inline constexpr uint32_t kSharedExpert = 0xFFFFFFu;

// `expert` below 2^24.
MESHSEAL_HOST_DEVICE constexpr uint64_t FailureWord(FailureKind kind, uint32_t expert, uint32_t detail) {
  return uint64_t{detail} << 32 | uint64_t{expert} << 8 | static_cast<uint64_t>(kind);
}
MESHSEAL_HOST_DEVICE constexpr FailureKind FailureKindOf(uint64_t word) {
  return static_cast<FailureKind>(word & 0xFFu);
}
MESHSEAL_HOST_DEVICE constexpr uint32_t FailedExpert(uint64_t word) {
  return static_cast<uint32_t>(word >> 8) & 0xFFFFFFu;
}
MESHSEAL_HOST_DEVICE constexpr uint32_t FailureDetail(uint64_t word) { return static_cast<uint32_t>(word >> 32); }

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_STEP_PODS_H_
