#include "runtime/comm/status_lane.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/execute/step_trail.h"
#include "schema/reason.h"

namespace meshseal::runtime {
namespace {

StatusLane SumOf(const std::vector<StatusLane>& lanes) {
  StatusLane sum;
  for (const StatusLane& lane : lanes) AddLane(lane, &sum);
  return sum;
}

TEST(StatusLaneTest, EqualLanesPass) {
  const StatusLane lane = LaneOf(5, "routing");
  EXPECT_GT(lane.routing_digest, 0);
  EXPECT_LT(lane.routing_digest, 1 << 23);
  for (uint32_t ranks = 1; ranks <= 4; ++ranks) {
    EXPECT_TRUE(CheckLane(SumOf(std::vector<StatusLane>(ranks, lane)), ranks, 5 * ranks).ok());
  }
}

TEST(StatusLaneTest, MissingAndDoubledSlotsAreNamed) {
  const StatusLane sum = SumOf({LaneOf(5, "r"), LaneOf(4, "r")});
  const absl::Status status = CheckLane(sum, 2, 10);
  EXPECT_EQ(status.message(), "the ranks computed 9 slots, expected 10");
  EXPECT_EQ(ReasonOf(status), Reason::kStatusLane);
  EXPECT_FALSE(CheckLane(sum, 2, 8).ok());
}

TEST(StatusLaneTest, DifferentRoutingsAreSeenEvenWhenTheirMeanIsOneOfThem) {
  const auto lane = [](int64_t digest) {
    StatusLane made;
    made.routing_digest = digest;
    made.routing_digest_square = digest * digest;
    return made;
  };
  EXPECT_TRUE(CheckLane(SumOf({lane(7), lane(7), lane(7)}), 3, 0).ok());
  for (const StatusLane& sum : {SumOf({lane(6), lane(7), lane(8)}), SumOf({lane(7), lane(7), lane(8)})}) {
    const absl::Status status = CheckLane(sum, 3, 0);
    EXPECT_EQ(status.message(), "the ranks routed differently");
    EXPECT_EQ(ReasonOf(status), Reason::kStatusLane);
  }
  // The largest world and digest stay inside 64 bits.
  const int64_t most = (1 << 23) - 1;
  StatusLane sum;
  for (int rank = 0; rank < 65536; ++rank) AddLane(lane(most), &sum);
  EXPECT_TRUE(CheckLane(sum, 65536, 0).ok());
}

TEST(StepTrailTest, KeepsTheNewestFour) {
  StepTrail trail;
  EXPECT_EQ(trail.Text(), "nothing");
  for (uint32_t layer = 0; layer < 6; ++layer) trail.Enter(layer, 5, "collective");
  EXPECT_EQ(trail.Text(),
            "layer 5 step 5 collective, layer 4 step 5 collective, layer 3 step 5 collective, "
            "layer 2 step 5 collective");
}

}  // namespace
}  // namespace meshseal::runtime
