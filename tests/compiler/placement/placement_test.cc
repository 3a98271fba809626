#include "compiler/placement/placement.h"

#include <gtest/gtest.h>

#include <numeric>

namespace meshseal::compiler {
namespace {

using Ends = std::vector<uint32_t>;

TEST(EvenEnds, LargerPartsFirstAndNothingLost) {
  EXPECT_EQ(EvenEnds(16, 4), (Ends{4, 8, 12, 16}));
  EXPECT_EQ(EvenEnds(16, 3), (Ends{6, 11, 16}));
  EXPECT_EQ(EvenEnds(128, 6), (Ends{22, 44, 65, 86, 107, 128}));
  EXPECT_EQ(EvenEnds(30, 4), (Ends{8, 16, 23, 30}));
  EXPECT_EQ(EvenEnds(1, 1), (Ends{1}));
  EXPECT_EQ(EvenEnds(2880, 4, 32), (Ends{736, 1472, 2176, 2880}));  // 90 blocks as 23, 23, 22, 22
  EXPECT_EQ(EvenEnds(320, 3, 128), (Ends{128, 256, 320}));          // the last tile is cut short
  for (uint32_t total = 1; total < 60; ++total) {
    for (uint32_t parts = 1; parts <= total; ++parts) {
      const Ends ends = EvenEnds(total, parts);
      ASSERT_EQ(ends.size(), parts);
      ASSERT_EQ(ends.back(), total);
      uint32_t begin = 0;
      uint32_t previous = total;
      for (const uint32_t end : ends) {
        const uint32_t size = end - begin;
        ASSERT_LE(size, previous);
        ASSERT_TRUE(size == total / parts || size == total / parts + 1);
        previous = size;
        begin = end;
      }
    }
  }
}

}  // namespace
}  // namespace meshseal::compiler
