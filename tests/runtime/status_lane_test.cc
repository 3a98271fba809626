#include "runtime/comm/status_lane.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <set>
#include <utility>
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
  const StatusLane lane = LaneOf(5, {3, 0, 7}, {0.5f, 0.25f, 1.0f});
  EXPECT_EQ(lane.routing_digest, 50156);
  EXPECT_EQ(lane.routing_digest_square, lane.routing_digest * lane.routing_digest);
  for (uint32_t ranks = 1; ranks <= 4; ++ranks) {
    EXPECT_TRUE(CheckLane(SumOf(std::vector<StatusLane>(ranks, lane)), ranks, 5 * ranks).ok());
  }
}

TEST(StatusLaneTest, MissingAndDoubledSlotsAreNamed) {
  const StatusLane sum = SumOf({LaneOf(5, {1}, {1.0f}), LaneOf(4, {1}, {1.0f})});
  const absl::Status status = CheckLane(sum, 2, 10);
  EXPECT_EQ(status.message(), "the ranks computed 9 slots, expected 10");
  EXPECT_EQ(ReasonOf(status), Reason::kStatusLane);
  EXPECT_FALSE(CheckLane(sum, 2, 8).ok());
}

// Every way in which one routing may differ from another: an expert, a bit of a weight, two slots that change places,
// and an expert that changes places with another without its weight.
TEST(StatusLaneTest, TheDigestDependsOnEverySlotsExpertAndWeight) {
  std::vector<int32_t> experts;
  std::vector<float> weights;
  for (int32_t slot = 0; slot < 64; ++slot) {
    experts.push_back(slot * 5 % 16);
    weights.push_back(1.0f / static_cast<float>(slot + 3));
  }
  const auto digest = [&] { return LaneOf(0, experts, weights).routing_digest; };
  const int64_t right = digest();
  std::set<int64_t> others;
  size_t changes = 0;
  const auto changed = [&] {
    others.insert(digest());
    ++changes;
  };
  for (size_t slot = 0; slot < experts.size(); ++slot) {
    experts[slot] ^= 1;
    changed();
    experts[slot] ^= 1;
    for (uint32_t bit = 0; bit < 32; ++bit) {
      const float before = weights[slot];
      weights[slot] = std::bit_cast<float>(std::bit_cast<uint32_t>(before) ^ 1u << bit);
      changed();
      weights[slot] = before;
    }
    const size_t next = (slot + 1) % experts.size();
    std::swap(experts[slot], experts[next]);
    changed();
    std::swap(weights[slot], weights[next]);
    changed();
    std::swap(experts[slot], experts[next]);
    std::swap(weights[slot], weights[next]);
  }
  EXPECT_EQ(others.count(right), 0u);
  EXPECT_EQ(digest(), right);
  EXPECT_GE(*others.begin(), 0);
  EXPECT_LT(*others.rbegin(), int64_t{1} << 23);
  EXPECT_GE(others.size() + 3, changes);  // two of 2240 may meet in 23 bits
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
