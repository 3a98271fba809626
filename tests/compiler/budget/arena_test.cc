#include "compiler/budget/arena.h"

#include <gtest/gtest.h>

#include <random>

namespace meshseal::compiler {
namespace {

bool LiveTogether(const Demand& a, const Demand& b) { return a.first <= b.last && b.first <= a.last; }

void ExpectSound(const std::vector<Demand>& demands, const Arena& arena) {
  ASSERT_EQ(arena.buffers.size(), demands.size());
  EXPECT_EQ(arena.bytes % kBufferAlignment, 0u);
  for (size_t i = 0; i < demands.size(); ++i) {
    const Buffer& a = arena.buffers[i];
    EXPECT_EQ(a.bytes, demands[i].bytes);
    EXPECT_EQ(a.offset % kBufferAlignment, 0u);
    EXPECT_LE(a.offset + a.bytes, arena.bytes);
    for (size_t j = 0; j < i; ++j) {
      const Buffer& b = arena.buffers[j];
      if (!LiveTogether(demands[i], demands[j]) || a.bytes == 0 || b.bytes == 0) continue;
      EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset) << i << " and " << j;
    }
  }
}

TEST(PlaceBuffers, LiveNeighboursShareNoByteAndDeadOnesDo) {
  const std::vector<Demand> demands = {{100, 0, 1}, {50, 1, 2}, {100, 2, 3}, {1, 0, 3}};
  const Arena arena = PlaceBuffers(demands);
  ExpectSound(demands, arena);
  EXPECT_EQ(arena.buffers[0].offset, arena.buffers[2].offset);
  EXPECT_EQ(arena.bytes, 128u + 64u + 64u);
}

TEST(PlaceBuffers, NothingAndEmptyDemands) {
  EXPECT_EQ(PlaceBuffers({}).bytes, 0u);
  const std::vector<Demand> demands = {{0, 0, 1}, {0, 0, 1}};
  ExpectSound(demands, PlaceBuffers(demands));
}

TEST(PlaceBuffers, RandomDemandsAreSoundAndRepeatable) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<Demand> demands(1 + random() % 12);
    uint64_t sum = 0;
    for (Demand& demand : demands) {
      demand = {random() % 1000, random() % 8, 0};
      demand.last = demand.first + random() % 4;
      sum += demand.bytes + kBufferAlignment;
    }
    const Arena arena = PlaceBuffers(demands);
    ExpectSound(demands, arena);
    EXPECT_LE(arena.bytes, sum);
    const Arena again = PlaceBuffers(demands);
    EXPECT_EQ(again.buffers, arena.buffers);
  }
}

}  // namespace
}  // namespace meshseal::compiler
