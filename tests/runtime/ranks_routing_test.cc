// What a caller brings beside hidden states, in whole sessions: token ids and a routing; and which copy computes a
// slot.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/session/session.h"
#include "schema/fingerprint.h"
#include "schema/reason.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/plan_builder.h"

namespace meshseal::runtime {
namespace {

using support::PlanNumbers;
using support::RandomCheckpoint;
using support::RandomValues;
using support::TempFolder;
using support::WriteCheckpoint;

std::unique_ptr<Session> MakeSession(SealedPlan plan, const std::filesystem::path& weights) {
  SessionOptions options;
  options.weights = {weights};
  options.unverified_weights = true;
  options.deadline = std::chrono::milliseconds(20'000);
  absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(std::move(plan), options);
  EXPECT_TRUE(session.ok()) << session.status();
  return std::move(session).value();
}

// A session of `n` over random weights of its plan.
std::unique_ptr<Session> MakeSession(const PlanNumbers& n) {
  const TempFolder folder;  // loaded at once
  return MakeSession(support::BuildSealedPlan(n),
                     WriteCheckpoint(folder.path(), RandomCheckpoint(support::BuildPlan(n), 3)));
}

PlanNumbers ByTable() {
  PlanNumbers n;
  n.ep = 2;
  n.router.vocabulary = 5;
  return n;
}

PlanNumbers Given() {
  PlanNumbers n;
  n.ep = 2;
  n.router.scoring = Scoring::kPrecomputed;
  n.router.renormalize = Renormalize::kNone;
  return n;
}

struct Ran {
  absl::Status status;
  std::vector<float> output;
  RunResult result;
};

struct Caller {
  std::vector<int32_t> token_ids;
  std::vector<int32_t> experts;
  std::vector<float> weights;
};

Ran RunLayer(Session& session, Phase phase, uint32_t tokens, const Caller& caller) {
  const std::vector<float> hidden = RandomValues(size_t{tokens} * PlanNumbers().hidden, 8);
  Ran ran;
  ran.output.resize(hidden.size());
  RunRequest request = {0, phase, tokens, hidden, absl::MakeSpan(ran.output)};
  request.token_ids = caller.token_ids;
  request.routing = {caller.experts, caller.weights};
  ran.status = session.Run(request, &ran.result);
  return ran;
}

std::string Refusal(Session& session, uint32_t tokens, const Caller& caller) {
  const Ran ran = RunLayer(session, Phase::kDecode, tokens, caller);
  EXPECT_EQ(ReasonOf(ran.status), Reason::kUsage);
  EXPECT_TRUE(ran.result.ranks.empty());  // nothing ran
  return std::string(ran.status.message());
}

TEST(TokenIds, AreRefusedBeforeAnythingRuns) {
  const auto session = MakeSession(ByTable());
  EXPECT_EQ(Refusal(*session, 3, {}), "layer 0 reads 3 token ids, 0 are given: its routing is route_by_table");
  EXPECT_EQ(Refusal(*session, 3, {{1, 2}, {}, {}}),
            "layer 0 reads 3 token ids, 2 are given: its routing is route_by_table");
  EXPECT_EQ(Refusal(*session, 3, {{1, 2, 5}, {}, {}}), "layer 0: token 2 has the id 5, the vocabulary has 5");
  EXPECT_EQ(Refusal(*session, 3, {{1, -1, 4}, {}, {}}), "layer 0: token 1 has the id -1, the vocabulary has 5");
  EXPECT_EQ(Refusal(*session, 1, {{1}, {0, 1}, {1, 1}}),
            "layer 0 reads 0 expert ids, 2 are given: its routing is route_by_table");
  // None of these ended the session.
  EXPECT_TRUE(RunLayer(*session, Phase::kDecode, 3, {{0, 4, 0}, {}, {}}).status.ok());
  EXPECT_TRUE(RunLayer(*session, Phase::kPrefill, 0, {}).status.ok());
  EXPECT_EQ(Refusal(*MakeSession(PlanNumbers()), 1, {{1}, {}, {}}),
            "layer 0 reads 0 token ids, 1 are given: its routing is route");
}

// Token 6 is in the second band and in a later chunk; its row of the table is broken.
TEST(TokenIds, ABrokenRowOfTheTableEndsAllRanks) {
  PlanNumbers n = ByTable();
  n.dp = 2;
  n.prefill_chunk = 2;
  const TempFolder folder;
  support::Checkpoint checkpoint = RandomCheckpoint(support::BuildPlan(n), 3);
  support::Tensor(checkpoint, "layers.0.token_table").values = {0, 1, 2, 3, 4, 5, 6, 8, 7, 7};
  WriteCheckpoint(folder.path(), checkpoint);
  for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
    const auto session = MakeSession(support::BuildSealedPlan(n), folder.path());
    const Ran good = RunLayer(*session, phase, 7, {{0, 1, 2, 2, 1, 0, 0}, {}, {}});
    ASSERT_TRUE(good.status.ok()) << good.status;
    EXPECT_EQ(good.result.expert_ids, (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 4, 5, 2, 3, 0, 1, 0, 1}));
    const Ran ran = RunLayer(*session, phase, 7, {{0, 1, 2, 2, 1, 0, 3}, {}, {}});
    EXPECT_EQ(ran.status.message(),
              "rank 2 (dp1 pp0 tp0 ep0): layer 0, step 0 route_by_table: token 6: the token table's row 3 selects "
              "expert 8 of 8");
    EXPECT_EQ(ReasonOf(ran.status), Reason::kWeightsTensor);
    for (const float value : ran.output) EXPECT_TRUE(std::isnan(value));
  }
}

// Layer 0 has a table, layer 1 scores: the ids go where they are read.
TEST(TokenIds, OfAStackGoToTheLayersThatReadThem) {
  PlanNumbers n = ByTable();
  n.layers = 2;
  n.moe_layers = {{0, 1}};
  Plan plan = support::BuildPlan(n);
  PlanNumbers scored = n;
  scored.router.vocabulary = 0;
  scored.moe_layers = {{1, 2}};
  const Plan second = support::BuildPlan(scored);
  plan.layer_classes.push_back(second.layer_classes[0]);
  for (size_t rank = 0; rank < plan.memory.size(); ++rank) {
    RankMemory& memory = plan.memory[rank];
    const RankMemory& more = second.memory[rank];
    memory.weights += more.weights;
    const uint64_t work = std::max(memory.decode_work, memory.prefill_work);
    memory.decode_work = std::max(memory.decode_work, more.decode_work);
    memory.prefill_work = std::max(memory.prefill_work, more.prefill_work);
    memory.total += more.weights + std::max(memory.decode_work, memory.prefill_work) - work;
  }
  plan.execution_fingerprint = ExecutionFingerprint(plan);

  const TempFolder folder;
  WriteCheckpoint(folder.path(), RandomCheckpoint(plan, 3));
  const auto session = MakeSession(support::Seal(plan), folder.path());
  const std::vector<float> hidden = RandomValues(size_t{3} * n.hidden, 8);
  std::vector<float> output(hidden.size());
  std::vector<RunResult> results;
  const std::vector<int32_t> ids = {4, 0, 2};
  absl::Status status =
      session->RunStack({Phase::kDecode, 3, hidden, absl::MakeSpan(output), absl::MakeConstSpan(ids)}, &results);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(results.size(), 2u);
  const Ran first = RunLayer(*session, Phase::kDecode, 3, {ids, {}, {}});
  ASSERT_TRUE(first.status.ok()) << first.status;
  std::vector<float> expected(hidden.size());
  RunResult result;
  ASSERT_TRUE(session->Run({1, Phase::kDecode, 3, first.output, absl::MakeSpan(expected)}, &result).ok());
  EXPECT_EQ(output, expected);

  status = session->RunStack({Phase::kDecode, 3, hidden, absl::MakeSpan(output)}, &results);
  EXPECT_EQ(status.message(), "layer 0 reads 3 token ids, 0 are given: its routing is route_by_table");
  EXPECT_EQ(ReasonOf(status), Reason::kUsage);
  EXPECT_TRUE(results.empty());
}

TEST(TokenIds, OfAStackWithoutATable) {
  PlanNumbers n;
  const auto session = MakeSession(n);
  const std::vector<float> hidden(n.hidden);
  std::vector<float> output(n.hidden);
  std::vector<RunResult> results;
  const std::vector<int32_t> ids = {1};
  const absl::Status status =
      session->RunStack({Phase::kDecode, 1, hidden, absl::MakeSpan(output), absl::MakeConstSpan(ids)}, &results);
  EXPECT_EQ(status.message(), "1 token ids, which no layer reads");
  EXPECT_EQ(ReasonOf(status), Reason::kUsage);
}

// What a scored layer routed, given to the same layer without a router: the same bits, for bands and chunks too.
TEST(GivenRouting, OfAScoredLayerGivesItsOutput) {
  PlanNumbers scored;
  scored.router.scale = 2.5f;  // in the weights that the caller gives
  const TempFolder folder;
  WriteCheckpoint(folder.path(), RandomCheckpoint(support::BuildPlan(scored), 3));
  PlanNumbers n = Given();
  n.ignored_tensors = {"layers.*.router"};
  for (const uint32_t dp : {1u, 2u}) {
    for (const uint32_t ep : {1u, 3u}) {
      scored.dp = n.dp = dp;
      scored.ep = n.ep = ep;
      n.prefill_chunk = 3;
      const auto router = MakeSession(support::BuildSealedPlan(scored), folder.path());
      const auto session = MakeSession(support::BuildSealedPlan(n), folder.path());
      for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
        const Ran expected = RunLayer(*router, phase, 9, {});
        ASSERT_TRUE(expected.status.ok()) << expected.status;
        const Ran ran = RunLayer(*session, phase, 9, {{}, expected.result.expert_ids, expected.result.expert_weights});
        ASSERT_TRUE(ran.status.ok()) << ran.status;
        EXPECT_EQ(ran.output, expected.output);
        EXPECT_EQ(ran.result.expert_ids, expected.result.expert_ids);
        EXPECT_EQ(ran.result.expert_weights, expected.result.expert_weights);
      }
    }
  }
}

TEST(GivenRouting, IsRefusedBeforeAnythingRuns) {
  const auto session = MakeSession(Given());
  EXPECT_EQ(Refusal(*session, 2, {}), "layer 0 reads 4 expert ids, 0 are given: its routing is route_given");
  EXPECT_EQ(Refusal(*session, 2, {{}, {0, 1, 2, 3}, {1, 1}}),
            "layer 0 reads 4 expert weights, 2 are given: its routing is route_given");
  EXPECT_EQ(Refusal(*session, 2, {{1, 2}, {0, 1, 2, 3}, {1, 1, 1, 1}}),
            "layer 0 reads 0 token ids, 2 are given: its routing is route_given");
  EXPECT_EQ(Refusal(*session, 2, {{}, {0, 1, 2, 8}, {1, 1, 1, 1}}),
            "layer 0: token 1: the given routing selects expert 8 of 8");
  EXPECT_EQ(Refusal(*session, 2, {{}, {3, 3, 1, 2}, {1, 1, 1, 1}}),
            "layer 0: token 0: the given routing selects expert 3 twice");
  EXPECT_EQ(Refusal(*session, 2, {{}, {0, 1, 2, 3}, {1, 1, 1, INFINITY}}),
            "layer 0: token 1: the given routing weighs expert 3 with a number that is not finite");
  EXPECT_TRUE(RunLayer(*session, Phase::kDecode, 2, {{}, {0, 1, 2, 3}, {1, 1, 1, 1}}).status.ok());
  EXPECT_EQ(Refusal(*MakeSession(PlanNumbers()), 1, {{}, {0, 1}, {1, 1}}),
            "layer 0 reads 0 expert ids, 2 are given: its routing is route");

  const std::vector<float> hidden(16);
  std::vector<float> output(16);
  std::vector<RunResult> results;
  const absl::Status status = session->RunStack({Phase::kDecode, 1, hidden, absl::MakeSpan(output)}, &results);
  EXPECT_EQ(status.message(), "layer 0 takes its routing from the caller, who has none for a stack");
  EXPECT_EQ(ReasonOf(status), Reason::kUsage);
}

// Expert 0 is on ep 0, and copies of it on ep 1 and ep 2; every token goes there and nowhere else. The caller's number
// of a token decides, whatever band and chunk it is in.
TEST(Copies, ATokensNumberDecides) {
  PlanNumbers n = Given();
  n.ep = 3;
  n.top_k = 1;
  n.copies = 9;  // a second one of every expert, and a third one of expert 0
  std::vector<float> output;
  for (const uint32_t dp : {1u, 2u}) {
    for (const uint32_t chunk : {1u, 4u, 64u}) {
      n.dp = dp;
      n.prefill_chunk = chunk;
      const auto session = MakeSession(n);
      for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
        const Ran ran = RunLayer(*session, phase, 7, {{}, std::vector<int32_t>(7, 0), std::vector<float>(7, 1)});
        ASSERT_TRUE(ran.status.ok()) << ran.status;
        std::vector<uint64_t> slots;
        for (const RankReport& report : ran.result.ranks) {
          EXPECT_EQ(report.counters.gate_up_slots, report.counters.down_slots);
          slots.push_back(report.counters.down_slots);
        }
        // Tokens 0, 3 and 6; 1 and 4; 2 and 5. The second band starts at token 4.
        const std::vector<uint64_t> expected =
            dp == 1 ? std::vector<uint64_t>{3, 2, 2} : std::vector<uint64_t>{2, 1, 1, 1, 1, 1};
        EXPECT_EQ(slots, expected) << "dp " << dp << " chunk " << chunk;
        if (output.empty()) output = ran.output;
        EXPECT_EQ(ran.output, output);
      }
    }
  }
}

}  // namespace
}  // namespace meshseal::runtime
