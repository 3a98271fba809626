// The scatter capacity against every routing there is, for all small sizes: never too small, and never larger
// than needed.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "compiler/budget/memory_plan.h"

namespace meshseal::compiler {
namespace {

// The most padded rows over all ways in which `tokens` tokens can each pick at most `top_k` distinct of
// `experts` experts. Only the counts per expert matter: enumerate subsets token by token.
uint64_t WorstByEnumeration(uint64_t tokens, uint64_t top_k, uint64_t experts, uint64_t tile) {
  std::vector<uint64_t> counts(experts, 0);
  uint64_t worst = 0;
  const std::function<void(uint64_t)> next_token = [&](uint64_t left) {
    if (left == 0) {
      uint64_t rows = 0;
      for (const uint64_t count : counts) rows += (count + tile - 1) / tile * tile;
      worst = std::max(worst, rows);
      return;
    }
    for (uint32_t subset = 0; subset < (1u << experts); ++subset) {
      if (static_cast<uint64_t>(__builtin_popcount(subset)) > top_k) continue;
      for (uint64_t e = 0; e < experts; ++e) counts[e] += subset >> e & 1;
      next_token(left - 1);
      for (uint64_t e = 0; e < experts; ++e) counts[e] -= subset >> e & 1;
    }
  };
  next_token(tokens);
  return worst;
}

TEST(GroupedRows, HoldsEveryRoutingOfSmallSizes) {
  for (uint64_t tokens = 0; tokens <= 4; ++tokens) {
    for (uint64_t experts = 1; experts <= 4; ++experts) {
      for (uint64_t top_k = 1; top_k <= 4; ++top_k) {
        for (uint64_t tile = 1; tile <= 4; ++tile) {
          const uint64_t worst = WorstByEnumeration(tokens, top_k, experts, tile);
          const uint64_t proven = GroupedRows(tokens, top_k, experts, tile);
          ASSERT_GE(proven, worst) << tokens << " tokens, top " << top_k << ", " << experts << " experts, tile "
                                   << tile;
          // With tiles of one row the bound is exact; with larger ones, less than a tile per expert above.
          ASSERT_LE(proven, worst + (tile == 1 ? 0 : tile * experts));
        }
      }
    }
  }
}

TEST(GroupedRows, AllToOneExpertAndOneEach) {
  EXPECT_EQ(GroupedRows(64, 8, 1, 16), 64u);
  EXPECT_EQ(GroupedRows(65, 8, 1, 16), 80u);
  EXPECT_EQ(GroupedRows(1, 4, 16, 8), 32u);
  EXPECT_EQ(GroupedRows(0, 4, 16, 8), 0u);
}

}  // namespace
}  // namespace meshseal::compiler
