// How a sum's bytes move: the choice by size, on both sides of where it turns.
#include <gtest/gtest.h>

#include <cstdint>

#include "compiler/budget/memory_plan.h"

namespace meshseal::compiler {
namespace {

constexpr ReduceAlgorithm kGather = ReduceAlgorithm::kGatherThenSum;
constexpr ReduceAlgorithm kExchange = ReduceAlgorithm::kExchangeThenSum;

ReduceAlgorithm Ordered(uint32_t tp, uint32_t ep, uint32_t tokens, uint64_t hidden) {
  return ReduceAlgorithmOf(Reduction::kOrdered, {1, 1, tp, ep, tp * ep}, tokens, hidden);
}

TEST(ReduceAlgorithm, AnOrderedSumExchangesWhereThatSparesARankOneMebibyte) {
  // Of N bytes 2 N are gathered and 4/3 N exchanged: N is 3/2 MiB.
  EXPECT_EQ(Ordered(1, 3, 384, 1024), kExchange);
  EXPECT_EQ(Ordered(3, 1, 1, 393'216), kExchange);
  EXPECT_EQ(Ordered(3, 1, 1, 393'215), kGather);
  // 3 N and 3/2 N: N is 2/3 MiB, which is no whole number of elements.
  EXPECT_EQ(Ordered(2, 2, 1, 174'763), kExchange);
  EXPECT_EQ(Ordered(1, 4, 1, 174'762), kGather);
  // 7 N and 7/4 N: N is 4/21 MiB.
  EXPECT_EQ(Ordered(2, 4, 1, 49'933), kExchange);
  EXPECT_EQ(Ordered(4, 2, 1, 49'932), kGather);
}

TEST(ReduceAlgorithm, OneOrTwoRanksGather) {
  for (const uint32_t tokens : {1u, 1u << 20, UINT32_MAX}) {
    EXPECT_EQ(Ordered(1, 1, tokens, 1 << 20), kGather);
    EXPECT_EQ(Ordered(2, 1, tokens, 1 << 20), kGather);
    EXPECT_EQ(Ordered(1, 2, tokens, 1 << 20), kGather);
  }
}

TEST(ReduceAlgorithm, MoreThan64BitsHoldIsMore) { EXPECT_EQ(Ordered(1, 1u << 20, UINT32_MAX, 1 << 20), kExchange); }

TEST(ReduceAlgorithm, WhatIsScatteredIsExchangedWhateverItsSize) {
  EXPECT_EQ(ReduceAlgorithmOf(Reduction::kOrdered, {1, 1, 1, 2, 1}, 1, 1), kExchange);
}

TEST(ReduceAlgorithm, OtherSumsAreTheTransports) {
  for (const Reduction reduction : {Reduction::kFast, Reduction::kExact}) {
    for (const uint32_t dense_tp : {4u, 1u}) {
      for (const uint32_t tokens : {1u, 1u << 20}) {
        EXPECT_EQ(ReduceAlgorithmOf(reduction, {1, 1, 2, 2, dense_tp}, tokens, 1024), ReduceAlgorithm::kTransport);
      }
    }
  }
}

}  // namespace
}  // namespace meshseal::compiler
