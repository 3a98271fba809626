// Scripts that no plan can hold: what does not fit is found, and told whole; what fits takes the time that it should.
#include "schema/simulate/play.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "schema/reason.h"

namespace meshseal {
namespace {

ScriptOp Compute(double bytes, double operations = 0) {
  ScriptOp op;
  op.bytes = bytes;
  op.operations = operations;
  return op;
}

// Over the rank's group number `with`.
ScriptOp Sum(uint32_t layer, uint64_t elements, uint32_t with = 0) {
  ScriptOp op;
  op.kind = ScriptOpKind::kCollective;
  op.movement = Movement::kSum;
  op.layer = layer;
  op.step = 6;
  op.with = with;
  op.rounds = 1;
  op.elements = elements;
  op.bytes = static_cast<double>(elements) * 4;
  return op;
}

ScriptOp Hand(ScriptOpKind kind, uint32_t layer, uint64_t elements, uint32_t peer = 0) {
  ScriptOp op = Sum(layer, elements, peer);
  op.kind = kind;
  op.movement = Movement::kNone;
  op.step = 0;
  return op;
}
constexpr ScriptOpKind kSend = ScriptOpKind::kSend;
constexpr ScriptOpKind kReceive = ScriptOpKind::kReceive;

struct RankOps {
  Script ops;
  std::vector<uint32_t> groups;
  std::vector<uint32_t> peers;
  uint32_t times = 1;
};

MeshScripts Scripts(std::vector<std::vector<uint32_t>> groups, const std::vector<RankOps>& ranks) {
  MeshScripts scripts;
  scripts.groups = std::move(groups);
  for (const RankOps& rank : ranks) {
    scripts.ranks.push_back({{{static_cast<uint32_t>(scripts.scripts.size()), rank.times}}, rank.groups, rank.peers});
    scripts.scripts.push_back(rank.ops);
  }
  return scripts;
}

// 1 byte and 2 operations a second; inside an island 1 s and 10 B/s, between the two of them 3 s and 5 B/s.
MeshRates Rates(const std::vector<uint32_t>& islands) {
  MeshRates rates;
  rates.ranks.assign(islands.size(), {1, 2});
  rates.islands = islands;
  rates.inside.assign(2, {1, 10});
  rates.between = {3, 5};
  return rates;
}

void ExpectRefused(const MeshScripts& scripts, Reason reason, absl::string_view text) {
  const MeshRates rates = Rates(std::vector<uint32_t>(scripts.ranks.size()));
  for (const MeshRates* of : {static_cast<const MeshRates*>(nullptr), &rates}) {
    const absl::StatusOr<Played> played = Play(scripts, of);
    ASSERT_FALSE(played.ok());
    EXPECT_EQ(ReasonOf(played.status()), reason);
    EXPECT_EQ(std::string(played.status().message()), std::string(text));
  }
}

TEST(Play, AnotherNumberOfElementsIsTold) {
  ExpectRefused(Scripts({{0, 1, 2}}, {{{Sum(1, 128)}, {0}, {}}, {{Sum(1, 128)}, {0}, {}}, {{Sum(1, 120)}, {0}, {}}}),
                Reason::kScheduleMismatch,
                "ranks 0-2 meet, and rank 2 enters layer 1 step 6, sum of 120 elements, rank 0 layer 1 step 6, sum of "
                "128 elements");
}

TEST(Play, AnotherLayerStepOrKindIsTold) {
  ScriptOp step = Sum(1, 8);
  step.step = 5;
  ExpectRefused(Scripts({{0, 1}}, {{{Sum(1, 8)}, {0}, {}}, {{step}, {0}, {}}}), Reason::kScheduleMismatch,
                "ranks 0-1 meet, and rank 1 enters layer 1 step 5, sum of 8 elements, rank 0 layer 1 step 6, sum of 8 "
                "elements");
  ExpectRefused(Scripts({{0, 1}}, {{{Sum(1, 8)}, {0}, {}}, {{Sum(2, 8)}, {0}, {}}}), Reason::kScheduleMismatch,
                "ranks 0-1 meet, and rank 1 enters layer 2 step 6, sum of 8 elements, rank 0 layer 1 step 6, sum of 8 "
                "elements");
  ScriptOp scatter = Sum(1, 8);
  scatter.movement = Movement::kReduceScatter;
  ExpectRefused(Scripts({{0, 1}}, {{{Sum(1, 8)}, {0}, {}}, {{scatter}, {0}, {}}}), Reason::kScheduleMismatch,
                "ranks 0-1 meet, and rank 1 enters layer 1 step 6, reduce-scatter of 8 elements, rank 0 layer 1 step "
                "6, sum of 8 elements");
}

TEST(Play, AMissingMemberIsTold) {
  ExpectRefused(Scripts({{0, 1, 2}}, {{{Sum(0, 8)}, {0}, {}}, {{Compute(4)}, {0}, {}}, {{Sum(0, 8)}, {0}, {}}}),
                Reason::kScheduleStuck,
                "rank 0 waits in layer 0 step 6, sum of 8 elements over ranks 0-2, for rank 1, which has ended");
}

TEST(Play, AMemberThatEntersOnceLessIsTold) {
  ExpectRefused(Scripts({{0, 1}}, {{{Sum(0, 8)}, {0}, {}, 3}, {{Sum(0, 8)}, {0}, {}, 2}}), Reason::kScheduleStuck,
                "rank 0 waits in layer 0 step 6, sum of 8 elements over ranks 0-1, for rank 1, which has ended");
}

TEST(Play, AStrangerInAGroupIsTold) {
  ExpectRefused(Scripts({{0, 1}}, {{{}, {}, {}}, {{}, {}, {}}, {{Sum(0, 8)}, {0}, {}}}), Reason::kScheduleMismatch,
                "rank 2 enters layer 0 step 6, sum of 8 elements, over ranks 0-1, of which it is none");
}

TEST(Play, TwoGroupsInAnotherOrderAreACycle) {
  const MeshScripts scripts = Scripts(
      {{0, 1}, {0, 1}}, {{{Sum(0, 8, 0), Sum(0, 4, 1)}, {0, 1}, {}}, {{Sum(0, 4, 1), Sum(0, 8, 0)}, {0, 1}, {}}});
  ExpectRefused(scripts, Reason::kScheduleStuck,
                "ranks wait for each other for ever: rank 0 waits in layer 0 step 6, sum of 8 elements over ranks 0-1, "
                "for rank 1; rank 1 waits in layer 0 step 6, sum of 4 elements over ranks 0-1, for rank 0");
}

TEST(Play, ACycleIsFoundBehindAChain) {
  // Rank 0 waits for rank 1, which is in a cycle with rank 2.
  const MeshScripts scripts =
      Scripts({{0, 1}, {1, 2}, {1, 2}},
              {{{Sum(0, 8)}, {0}, {}}, {{Sum(1, 4, 1), Sum(0, 8, 0)}, {0, 1}, {}}, {{Sum(1, 2, 0)}, {2}, {}}});
  ExpectRefused(scripts, Reason::kScheduleStuck,
                "ranks wait for each other for ever: rank 1 waits in layer 1 step 6, sum of 4 elements over ranks 1-2, "
                "for rank 2; rank 2 waits in layer 1 step 6, sum of 2 elements over ranks 1-2, for rank 1");
}

TEST(Play, ALongCycleIsToldInPart) {
  constexpr uint32_t kRanks = 10;
  std::vector<std::vector<uint32_t>> groups;
  std::vector<RankOps> ranks;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    const uint32_t next = (rank + 1) % kRanks;
    groups.push_back(next > rank ? std::vector<uint32_t>{rank, next} : std::vector<uint32_t>{next, rank});
    ranks.push_back({{Sum(0, 1, 0), Sum(0, 1, 1)}, {rank, (rank + kRanks - 1) % kRanks}, {}});
  }
  const absl::StatusOr<Played> played = Play(Scripts(groups, ranks), nullptr);
  ASSERT_FALSE(played.ok());
  const std::string text(played.status().message());
  EXPECT_EQ(text.substr(text.rfind("; ")), "; 2 more ranks wait");
}

TEST(Play, ALostHandOffIsTold) {
  ExpectRefused(Scripts({}, {{{Compute(1)}, {}, {1}}, {{Hand(kReceive, 3, 8)}, {}, {0}}}), Reason::kScheduleStuck,
                "rank 1 waits to take over layer 3, hand-off of 8 elements, for rank 0, which has ended");
  ExpectRefused(Scripts({}, {{{Hand(kSend, 3, 8)}, {}, {1}}, {{Compute(1)}, {}, {0}}}), Reason::kScheduleStuck,
                "rank 0 waits to hand over layer 3, hand-off of 8 elements, for rank 1, which has ended");
}

TEST(Play, BothHandOverAtOnceIsACycle) {
  ExpectRefused(Scripts({}, {{{Hand(kSend, 0, 8), Hand(kReceive, 0, 8)}, {}, {1}},
                             {{Hand(kSend, 0, 8), Hand(kReceive, 0, 8)}, {}, {0}}}),
                Reason::kScheduleStuck,
                "ranks wait for each other for ever: rank 0 waits to hand over layer 0, hand-off of 8 elements, for "
                "rank 1; rank 1 waits to hand over layer 0, hand-off of 8 elements, for rank 0");
}

TEST(Play, AHandOffOfAnotherSizeIsTold) {
  ExpectRefused(Scripts({}, {{{Hand(kSend, 3, 8)}, {}, {1}}, {{Hand(kReceive, 3, 9)}, {}, {0}}}),
                Reason::kScheduleMismatch,
                "rank 0 hands rank 1 layer 3, hand-off of 8 elements, which expects layer 3, hand-off of 9 elements");
}

TEST(Play, IndicesThatLeadNowhereAreOurFault) {
  ExpectRefused(Scripts({}, {{{Sum(0, 1)}, {}, {}}}), Reason::kBug,
                "the script of rank 0 names a group that there is not");
  ExpectRefused(Scripts({}, {{{}, {0}, {}}}), Reason::kBug, "the script of rank 0 names a group that there is not");
  ExpectRefused(Scripts({}, {{{Hand(kSend, 0, 1)}, {}, {}}}), Reason::kBug,
                "the script of rank 0 names a peer that there is not");
  ExpectRefused(Scripts({}, {{{}, {}, {1}}}), Reason::kBug, "the script of rank 0 names a peer that there is not");
  ExpectRefused(Scripts({{0, 1}}, {{{}, {}, {}}}), Reason::kBug, "the script of rank 1 names a rank that there is not");
  ExpectRefused(Scripts({{1, 0}}, {{{}, {}, {}}, {{}, {}, {}}}), Reason::kBug, "the ranks of a group do not ascend");
  MeshScripts scripts = Scripts({}, {{{}, {}, {}}});
  scripts.ranks[0].passages[0].script = 7;
  ExpectRefused(scripts, Reason::kBug, "the script of rank 0 names a script that there is not");
}

TEST(Play, NobodyHasNothingToDo) {
  const absl::StatusOr<Played> played = Play({}, nullptr);
  ASSERT_TRUE(played.ok()) << played.status();
  EXPECT_EQ(played->operations, 0u);
  EXPECT_EQ(played->critical.total(), 0);
}

TEST(Play, TheLastToArriveBeginsACollective) {
  // Rank 1 computes 7 s, then both receive 8 elements of 4 bytes from each other: 1 + 32 / 10 s.
  const MeshScripts scripts =
      Scripts({{0, 1}}, {{{Compute(2), Sum(0, 8)}, {0}, {}}, {{Compute(3, 14), Sum(0, 8)}, {0}, {}}});
  const MeshRates rates = Rates({0, 0});
  const absl::StatusOr<Played> played = Play(scripts, &rates);
  ASSERT_TRUE(played.ok()) << played.status();
  EXPECT_EQ(played->operations, 4u);
  EXPECT_EQ(played->collectives, 1u);
  const TimeSpent& first = played->ranks[0].spent;
  EXPECT_DOUBLE_EQ(first.weights, 2);
  EXPECT_DOUBLE_EQ(first.arithmetic, 0);
  EXPECT_DOUBLE_EQ(first.waiting, 5);
  EXPECT_DOUBLE_EQ(first.collectives, 4.2);
  const TimeSpent& second = played->ranks[1].spent;
  EXPECT_DOUBLE_EQ(second.arithmetic, 7);
  EXPECT_DOUBLE_EQ(second.waiting, 0);
  EXPECT_DOUBLE_EQ(played->ranks[1].weight_bytes, 3);
  EXPECT_DOUBLE_EQ(played->ranks[1].operations, 14);
  // The critical path goes through the rank that computes longer, whichever ends last.
  EXPECT_DOUBLE_EQ(played->critical.total(), 11.2);
  EXPECT_DOUBLE_EQ(played->critical.arithmetic, 7);
  EXPECT_DOUBLE_EQ(played->critical.weights, 0);
}

TEST(Play, BytesGoOverTheLinkThatTheyCross) {
  // Rank 0 has one peer near and one far, rank 2 two far ones; all wait for the slow link's latency.
  const ScriptOp sum = Sum(0, 5);  // 20 bytes from each
  const MeshScripts scripts = Scripts({{0, 1, 2}}, {{{sum}, {0}, {}}, {{sum}, {0}, {}}, {{sum}, {0}, {}}});
  const MeshRates rates = Rates({0, 0, 1});
  const absl::StatusOr<Played> played = Play(scripts, &rates);
  ASSERT_TRUE(played.ok()) << played.status();
  EXPECT_DOUBLE_EQ(played->ranks[0].spent.collectives, 3 + 2 + 4);
  EXPECT_DOUBLE_EQ(played->ranks[2].spent.collectives, 3 + 8);
  EXPECT_EQ(played->last_rank, 2u);
  EXPECT_DOUBLE_EQ(played->critical.total(), 11);
}

TEST(Play, StagesOverlap) {
  // Two stages, three chunks of 10 s in each; a hand-off takes 1 s and 40 bytes.
  const MeshScripts scripts = Scripts(
      {}, {{{Compute(10), Hand(kSend, 0, 10)}, {}, {1}, 3}, {{Hand(kReceive, 0, 10), Compute(10)}, {}, {0}, 3}});
  const MeshRates rates = Rates({0, 0});
  const absl::StatusOr<Played> played = Play(scripts, &rates);
  ASSERT_TRUE(played.ok()) << played.status();
  EXPECT_EQ(played->hand_offs, 3u);
  EXPECT_EQ(played->last_rank, 1u);
  // Every hand-off is 5 s; the first stage's three chunks follow each other, then the second stage's last one.
  EXPECT_DOUBLE_EQ(played->critical.total(), 3 * 15 + 10);
  EXPECT_DOUBLE_EQ(played->critical.weights, 40);
  EXPECT_DOUBLE_EQ(played->critical.hand_offs, 15);
  EXPECT_DOUBLE_EQ(played->ranks[1].spent.total(), 55);
  EXPECT_DOUBLE_EQ(played->ranks[1].spent.waiting, 10);
}

TEST(Play, WithoutRatesNothingTakesTime) {
  const MeshScripts scripts = Scripts({{0, 1}}, {{{Compute(2), Sum(0, 8)}, {0}, {}}, {{Sum(0, 8)}, {0}, {}}});
  const absl::StatusOr<Played> played = Play(scripts, nullptr);
  ASSERT_TRUE(played.ok()) << played.status();
  EXPECT_EQ(played->collectives, 1u);
  EXPECT_EQ(played->critical.total(), 0);
  EXPECT_DOUBLE_EQ(played->ranks[0].weight_bytes, 2);
}

TEST(Play, AGroupOfOneMeetsAtOnce) {
  const MeshRates rates = Rates({0});
  const absl::StatusOr<Played> played = Play(Scripts({{0}}, {{{Sum(0, 8), Compute(1)}, {0}, {}}}), &rates);
  ASSERT_TRUE(played.ok()) << played.status();
  EXPECT_DOUBLE_EQ(played->critical.total(), 1);
}

}  // namespace
}  // namespace meshseal
