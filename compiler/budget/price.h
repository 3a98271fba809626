// What a step costs: bytes and operations of the busiest rank, bytes over links, and a predicted time. A model, not a
// measurement: its assumptions are printed beside it.
//
// A product takes the longer of its operations at the device's bf16 rate and its weights' bytes at the memory's
// bandwidth; a collective takes the link's latency and its bytes at the link's bandwidth; nothing overlaps.
#ifndef MESHSEAL_COMPILER_BUDGET_PRICE_H_
#define MESHSEAL_COMPILER_BUDGET_PRICE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/budget/memory_plan.h"
#include "compiler/check/checked_model.h"
#include "compiler/placement/placement.h"
#include "schema/plan.h"

namespace meshseal::compiler {

struct Price {
  StepPrice decode;   // of decode_tokens tokens, through all stages
  StepPrice prefill;  // of one chunk of prefill_chunk tokens
};

// The island of each node of a mesh that holds its rules.
std::vector<uint32_t> IslandOfNode(const MeshSpec& mesh);

// What the figures take for granted, a line each.
std::vector<std::string> PriceAssumptions();

// Nothing, and why, where a device states no bandwidth or no bf16 rate.
struct Pricing {
  std::optional<Price> price;
  std::string missing;
};
Pricing PriceOf(const CheckedModel& checked, const Placement& placement, const MemoryPlan& memory);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_BUDGET_PRICE_H_
