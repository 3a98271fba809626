// What a call of a layer reads and computes, rank by rank, from the routing that it took.
#ifndef MESHSEAL_TOOLS_RUN_BENCH_WORK_H_
#define MESHSEAL_TOOLS_RUN_BENCH_WORK_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schema/plan.h"

namespace meshseal::tools {

// Of one rank in one call.
struct RankWork {
  uint64_t weight_bytes = 0;  // as stored: router, shared expert, and each owned expert that any token selected,
                              // once a step or chunk
  uint64_t operations = 0;    // floating-point: products alone
};

// By world rank; ranks of other stages than the layer's do nothing. `experts` is the call's routing, [tokens * top_k].
// The layer has experts.
std::vector<RankWork> WorkOf(const Plan& plan, uint32_t layer, Phase phase, uint32_t tokens,
                             absl::Span<const int32_t> experts);

// "8", "1,8,64", or "1..4096*2": 1, 2, 4, ... up to 4096. Counts ascend. Reason kUsage.
absl::StatusOr<std::vector<uint32_t>> TokenCounts(absl::string_view text);

// `count` numbers of a normal distribution with deviation 1, the same for a seed on every machine.
std::vector<float> NormalNumbers(uint64_t seed, size_t count);

// `tokens` times `top_k` different experts of `experts`, the same for a seed on every machine.
std::vector<int32_t> DistinctExperts(uint64_t seed, uint32_t tokens, uint32_t top_k, uint32_t experts);

}  // namespace meshseal::tools

#endif  // MESHSEAL_TOOLS_RUN_BENCH_WORK_H_
