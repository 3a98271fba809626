#include "schema/mesh_view.h"

#include <gtest/gtest.h>

namespace meshseal {
namespace {

using Ranks = std::vector<uint32_t>;

TEST(MeshView, GoldenCoordinatesOfTwoByTwoByTwoByTwo) {
  const Degrees degrees{2, 2, 2, 2, 4};
  EXPECT_EQ(RankOf(degrees, {1, 0, 1, 0}), 10u);
  EXPECT_EQ(CoordinateOf(degrees, 10), (Coordinate{1, 0, 1, 0}));
  EXPECT_EQ(GroupOf(degrees, MeshGroup::kEp, 10), (Ranks{10, 11}));
  EXPECT_EQ(GroupOf(degrees, MeshGroup::kTp, 10), (Ranks{8, 10}));
  EXPECT_EQ(GroupOf(degrees, MeshGroup::kPp, 10), (Ranks{10, 14}));
  EXPECT_EQ(GroupOf(degrees, MeshGroup::kDp, 10), (Ranks{2, 10}));
  EXPECT_EQ(GroupOf(degrees, MeshGroup::kExpert, 10), (Ranks{8, 9, 10, 11}));
}

TEST(MeshView, CoordinatesAndRanksAreInverse) {
  const Degrees degrees{2, 3, 5, 7, 35};
  for (uint32_t rank = 0; rank < *WorldOf(degrees); ++rank) {
    EXPECT_EQ(RankOf(degrees, CoordinateOf(degrees, rank)), rank);
  }
}

TEST(MeshView, EveryGroupPartitionsTheWorld) {
  const Degrees degrees{2, 3, 2, 4, 8};
  const uint32_t world = *WorldOf(degrees);
  for (const MeshGroup group : {MeshGroup::kDp, MeshGroup::kPp, MeshGroup::kTp, MeshGroup::kEp, MeshGroup::kExpert}) {
    for (uint32_t rank = 0; rank < world; ++rank) {
      const Ranks members = GroupOf(degrees, group, rank);
      EXPECT_NE(std::find(members.begin(), members.end(), rank), members.end());
      for (const uint32_t member : members) EXPECT_EQ(GroupOf(degrees, group, member), members);
    }
  }
}

TEST(MeshView, NoWorldForDegreeZeroOrOverflow) {
  EXPECT_FALSE(WorldOf({0, 1, 1, 1, 1}).has_value());
  EXPECT_FALSE(WorldOf({1, 1, 1, 0, 1}).has_value());
  EXPECT_FALSE(WorldOf({65536, 65536, 1, 1, 1}).has_value());
  EXPECT_FALSE(WorldOf({4294967295u, 4294967295u, 4294967295u, 4294967295u, 1}).has_value());
  EXPECT_EQ(WorldOf({1, 1, 1, 4294967295u, 1}), 4294967295u);
}

}  // namespace
}  // namespace meshseal
