// Worlds over all axes at once: pipeline stages, replicas and dense groups with tokens of their own.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/session/session.h"
#include "schema/reason.h"
#include "tests/runtime/oracle.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/plan_builder.h"

namespace meshseal::runtime {
namespace {

using support::PlanNumbers;
using support::RandomValues;
using support::RelativeDifference;
using support::TempFolder;

constexpr double kWorldsAgree = 2e-6;

// A layer or a stack over worlds that share one checkpoint.
class AxesTest : public testing::Test {
 protected:
  AxesTest() {
    numbers_.layers = 5;
    numbers_.moe_layers = {{0, 1}, {2, 5}};  // layer 1 has no experts
    numbers_.residual = Residual::kAdd;
    numbers_.shared_width = 8;
    support::WriteCheckpoint(folder_.path(), support::RandomCheckpoint(support::BuildPlan(numbers_), 3));
  }

  std::unique_ptr<Session> MakeSession(const PlanNumbers& numbers, const std::atomic<bool>* drain = nullptr) {
    SessionOptions options;
    options.weights = {folder_.path()};
    options.unverified_weights = true;
    options.deadline = std::chrono::milliseconds(20'000);
    options.drain = drain;
    absl::StatusOr<std::unique_ptr<Session>> session =
        Session::Create(support::BuildSealedPlan(numbers), std::move(options));
    EXPECT_TRUE(session.ok()) << session.status();
    return session.ok() ? std::move(*session) : nullptr;
  }

  std::vector<float> Hidden(uint32_t tokens) const { return RandomValues(size_t{tokens} * numbers_.hidden, 7); }

  struct Ran {
    absl::Status status;
    std::vector<float> output;
    std::vector<RunResult> results;
  };

  Ran RunStack(const PlanNumbers& numbers, Phase phase, uint32_t tokens, std::vector<uint32_t> group_tokens = {}) {
    Ran ran;
    const auto session = MakeSession(numbers);
    if (session == nullptr) return ran;
    const std::vector<float> hidden = Hidden(tokens);
    ran.output.assign(hidden.size(), std::nanf(""));
    ran.status = session->RunStack({phase, tokens, hidden, absl::MakeSpan(ran.output), {}, group_tokens}, &ran.results);
    return ran;
  }

  // The stack of `numbers` gives what one rank gives, and routes alike; every slot is computed once.
  void ExpectOneRanksStack(const PlanNumbers& numbers, uint32_t tokens, std::vector<uint32_t> group_tokens = {}) {
    PlanNumbers of_one = numbers_;
    of_one.reduction = numbers.reduction;
    of_one.segments = numbers.segments;
    of_one.shared_segments = numbers.shared_segments;
    for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
      const Ran one = RunStack(of_one, phase, tokens);
      const Ran ran = RunStack(numbers, phase, tokens, group_tokens);
      ASSERT_TRUE(one.status.ok()) << one.status;
      ASSERT_TRUE(ran.status.ok()) << ran.status;
      if (numbers.reduction == Reduction::kExact) {
        EXPECT_EQ(ran.output, one.output);
      } else {
        EXPECT_LE(RelativeDifference(ran.output, one.output), kWorldsAgree);
      }
      ASSERT_EQ(ran.results.size(), 4u);
      for (size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(ran.results[i].expert_ids, one.results[i].expert_ids);
        EXPECT_LE(RelativeDifference(ran.results[i].expert_weights, one.results[i].expert_weights), kWorldsAgree);
        uint64_t slots = 0;
        for (const RankReport& rank : ran.results[i].ranks) slots += rank.counters.down_slots;
        EXPECT_EQ(slots, uint64_t{tokens} * numbers.top_k * numbers.tp);
      }
    }
  }

  const TempFolder folder_;
  PlanNumbers numbers_;
};

TEST_F(AxesTest, StagesHandOverToTheNext) {
  PlanNumbers n = numbers_;
  n.pp = 3;
  for (const uint32_t tokens : {0u, 1u, 7u}) ExpectOneRanksStack(n, tokens);
  n.ep = 2;
  n.prefill_chunk = 4;  // several rounds, each through all stages
  for (const uint32_t tokens : {1u, 15u}) ExpectOneRanksStack(n, tokens);
}

TEST_F(AxesTest, AStageWithoutExpertsIsSteppedOver) {
  PlanNumbers n = numbers_;
  n.pp = 5;  // layer 1 is a stage of its own
  ExpectOneRanksStack(n, 3);
}

TEST_F(AxesTest, ALayerOfALaterStageReadsTheCaller) {
  PlanNumbers n = numbers_;
  n.pp = 3;
  const auto one = MakeSession(numbers_);
  const auto session = MakeSession(n);
  const std::vector<float> hidden = Hidden(5);
  std::vector<float> expected(hidden.size());
  std::vector<float> output(hidden.size());
  RunResult result;
  ASSERT_TRUE(one->Run({3, Phase::kDecode, 5, hidden, absl::MakeSpan(expected)}, &result).ok());
  ASSERT_TRUE(session->Run({3, Phase::kDecode, 5, hidden, absl::MakeSpan(output)}, &result).ok());
  EXPECT_EQ(output, expected);
  EXPECT_FALSE(result.ranks[0].ran);
  EXPECT_TRUE(result.ranks[1].ran);
}

TEST_F(AxesTest, ReplicasTakeTheirOwnTokens) {
  PlanNumbers n = numbers_;
  n.dp = 2;
  n.ep = 2;
  ExpectOneRanksStack(n, 7);
  ExpectOneRanksStack(n, 7, {0, 7});
  ExpectOneRanksStack(n, 7, {6, 1});
}

TEST_F(AxesTest, DenseGroupsBringTheirOwnTokens) {
  PlanNumbers n = numbers_;
  n.ep = 4;
  n.dense_tp = 1;
  n.decode_tokens = 36;
  n.prefill_chunk = 8;  // at most two of each rank in a round
  ExpectOneRanksStack(n, 9, {3, 0, 5, 1});
  ExpectOneRanksStack(n, 0);
  ExpectOneRanksStack(n, 1, {0, 0, 0, 1});
  ExpectOneRanksStack(n, 11);
  n.ep = 2;
  n.tp = 2;
  n.dense_tp = 2;  // two groups of two ranks
  ExpectOneRanksStack(n, 9, {8, 1});
  n.dp = 2;
  n.pp = 2;
  ExpectOneRanksStack(n, 13, {1, 6, 6, 0});
}

TEST_F(AxesTest, FastSumsAreNearTheOrderedOnes) {
  PlanNumbers n = numbers_;
  n.reduction = Reduction::kFast;
  n.ep = 3;
  ExpectOneRanksStack(n, 9);
  n.ep = 2;
  n.tp = 2;
  n.dense_tp = 1;
  ExpectOneRanksStack(n, 9, {3, 0, 5, 1});
  n.dense_tp = 2;  // the ranks of a group must route the next layer alike
  ExpectOneRanksStack(n, 9, {8, 1});
}

TEST_F(AxesTest, ExactSumsAreTheSameForEveryWorld) {
  PlanNumbers n = numbers_;
  n.reduction = Reduction::kExact;
  n.segments = 2;
  n.shared_segments = 4;
  n.ep = 4;
  ExpectOneRanksStack(n, 9);
  n.dense_tp = 1;
  ExpectOneRanksStack(n, 9, {3, 0, 5, 1});
  n.ep = 2;
  n.tp = 2;
  n.dense_tp = 2;
  n.pp = 3;
  n.dp = 2;
  ExpectOneRanksStack(n, 13, {1, 6, 6, 0});
}

TEST_F(AxesTest, TokenCountsThatDoNotFitAreRefused) {
  PlanNumbers n = numbers_;
  n.dp = 2;
  n.ep = 2;
  n.dense_tp = 1;
  n.decode_tokens = 8;
  const auto session = MakeSession(n);
  const auto refusal = [&](uint32_t tokens, std::vector<uint32_t> group_tokens, Reason reason) {
    const std::vector<float> hidden = Hidden(tokens);
    std::vector<float> output(hidden.size());
    std::vector<RunResult> results;
    const absl::Status status =
        session->RunStack({Phase::kDecode, tokens, hidden, absl::MakeSpan(output), {}, group_tokens}, &results);
    EXPECT_EQ(ReasonOf(status), reason);
    return std::string(status.message());
  };
  EXPECT_EQ(refusal(5, {5}, Reason::kUsage),
            "token counts of 1 groups, the plan has 2 replicas of 2 dense groups each");
  EXPECT_EQ(refusal(5, {1, 1, 1, 1}, Reason::kUsage), "the groups' token counts add up to 4, the call has 5");
  EXPECT_EQ(refusal(5, {5, 0, 0, 0}, Reason::kLimit),
            "a decode of 5 tokens gives 5 to a dense group, the plan's rank_tokens.decode is 4");
  EXPECT_EQ(refusal(9, {4, 5, 0, 0}, Reason::kLimit),
            "a decode of 9 tokens gives 9 to a replica, the plan's decode_tokens is 8");
}

TEST_F(AxesTest, ARankThatIsAskedToEndStopsAllAfterOneStep) {
  std::atomic<bool> drain{false};
  for (const bool pipeline : {false, true}) {
    PlanNumbers n = numbers_;
    n.ep = 2;
    if (pipeline) n.pp = 2;
    drain = false;
    const auto session = MakeSession(n, &drain);
    const std::vector<float> hidden = Hidden(5);
    std::vector<float> output(hidden.size());
    std::vector<RunResult> results;
    RunResult result;
    ASSERT_TRUE(session->RunStack({Phase::kDecode, 5, hidden, absl::MakeSpan(output)}, &results).ok());
    drain = true;
    // The step that was begun is whole.
    EXPECT_TRUE(session->Run({0, Phase::kDecode, 5, hidden, absl::MakeSpan(output)}, &result).ok());
    const absl::Status status = session->RunStack({Phase::kDecode, 5, hidden, absl::MakeSpan(output)}, &results);
    EXPECT_EQ(status.message(), "rank 0 (dp0 pp0 tp0 ep0): a rank was asked to end; all stopped after layer 0");
    EXPECT_EQ(ReasonOf(status), Reason::kStopped);
    for (const float value : output) EXPECT_TRUE(std::isnan(value));
  }
}

}  // namespace
}  // namespace meshseal::runtime
