// Whole sessions: sealed plan, checkpoint, ranks as threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/session/session.h"
#include "schema/reason.h"
#include "tests/runtime/oracle.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/plan_builder.h"

namespace meshseal::runtime {
namespace {

using support::Checkpoint;
using support::Oracle;
using support::OracleResult;
using support::PlanNumbers;
using support::RandomCheckpoint;
using support::RandomValues;
using support::RelativeDifference;
using support::TempFolder;
using support::Tensor;
using support::WriteCheckpoint;

constexpr double kWorldsAgree = 2e-6;
constexpr double kOracleAgrees = 2e-6;

SessionOptions Options(std::vector<std::filesystem::path> weights) {
  SessionOptions options;
  options.weights = std::move(weights);
  options.unverified_weights = true;
  options.deadline = std::chrono::milliseconds(20'000);
  return options;
}

std::unique_ptr<Session> MakeSession(const PlanNumbers& numbers, const std::filesystem::path& weights) {
  absl::StatusOr<std::unique_ptr<Session>> session =
      Session::Create(support::BuildSealedPlan(numbers), Options({weights}));
  EXPECT_TRUE(session.ok()) << session.status();
  return std::move(session).value();
}

struct Ran {
  absl::Status status;
  std::vector<float> output;
  RunResult result;
};

Ran RunLayer(Session& session, Phase phase, uint32_t tokens, const std::vector<float>& hidden, uint32_t layer = 0) {
  Ran ran;
  ran.output.assign(hidden.size(), std::nanf(""));
  ran.status = session.Run({layer, phase, tokens, hidden, absl::MakeSpan(ran.output)}, &ran.result);
  return ran;
}

std::vector<float> Hidden(const PlanNumbers& n, uint32_t tokens) { return RandomValues(size_t{tokens} * n.hidden, 77); }

TEST(SessionTest, OneRankAgreesWithTheOracle) {
  PlanNumbers n;
  const TempFolder folder;
  Checkpoint checkpoint = RandomCheckpoint(support::BuildPlan(n), 1);
  WriteCheckpoint(folder.path(), checkpoint);
  const auto session = MakeSession(n, folder.path());
  for (const uint32_t tokens : {0u, 1u, 7u, 33u}) {
    const std::vector<float> hidden = Hidden(n, tokens);
    const OracleResult oracle = Oracle(n, 0, checkpoint, hidden);
    for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
      const Ran ran = RunLayer(*session, phase, tokens, hidden);
      ASSERT_TRUE(ran.status.ok()) << ran.status;
      EXPECT_LE(RelativeDifference(ran.output, oracle.hidden), kOracleAgrees) << tokens;
      EXPECT_EQ(ran.result.expert_ids, oracle.experts);
      EXPECT_LE(RelativeDifference(ran.result.expert_weights, oracle.weights), kOracleAgrees);
    }
  }
}

// Each of these numbers has its own way through a step; a layer that ignores one of them misses the oracle.
TEST(SessionTest, EveryRuleOfTheModelCounts) {
  std::vector<PlanNumbers> all;
  PlanNumbers n;
  n.router.renormalize = Renormalize::kNone;
  all.push_back(n);
  n.router.order = RouteOrder::kTopKThenScore;
  all.push_back(n);
  n = PlanNumbers();
  n.router.scale = 2.5f;
  all.push_back(n);
  n = PlanNumbers();
  n.router.input = Basis::kBf16;
  all.push_back(n);
  n = PlanNumbers();
  n.gate_up_basis = Basis::kBf16;
  all.push_back(n);
  n = PlanNumbers();
  n.down_basis = Basis::kBf16;
  all.push_back(n);
  n = PlanNumbers();
  n.residual = Residual::kAdd;
  all.push_back(n);
  n = PlanNumbers();
  n.output = Basis::kBf16;
  all.push_back(n);
  n = PlanNumbers();
  n.hidden = n.intermediate = 16;  // a transposed read would go unnoticed by sizes
  all.push_back(n);
  n = PlanNumbers();
  n.dtype = DType::kBf16;
  all.push_back(n);
  n = PlanNumbers();
  n.dtype = DType::kF16;
  all.push_back(n);
  n = PlanNumbers();
  n.top_k = n.experts;
  all.push_back(n);
  n = PlanNumbers();
  n.tile_rows = 1;
  all.push_back(n);
  for (size_t i = 0; i < all.size(); ++i) {
    const TempFolder folder;
    Checkpoint checkpoint = RandomCheckpoint(support::BuildPlan(all[i]), 2);
    WriteCheckpoint(folder.path(), checkpoint);
    const std::vector<float> hidden = Hidden(all[i], 7);
    const OracleResult oracle = Oracle(all[i], 0, checkpoint, hidden);
    for (const uint32_t degree : {1u, 2u}) {
      PlanNumbers numbers = all[i];
      numbers.tp = numbers.ep = degree;
      for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
        const Ran ran = RunLayer(*MakeSession(numbers, folder.path()), phase, 7, hidden);
        ASSERT_TRUE(ran.status.ok()) << ran.status;
        EXPECT_LE(RelativeDifference(ran.output, oracle.hidden), kOracleAgrees) << "case " << i;
        EXPECT_EQ(ran.result.expert_ids, oracle.experts) << "case " << i;
      }
    }
  }
}

TEST(SessionTest, WorldsAgreeAndEachSlotIsComputedOncePerTensorRank) {
  PlanNumbers one;
  one.prefill_chunk = 5;
  one.residual = Residual::kAdd;
  const TempFolder folder;
  WriteCheckpoint(folder.path(), RandomCheckpoint(support::BuildPlan(one), 3));
  const auto alone = MakeSession(one, folder.path());

  struct World {
    uint32_t dp, tp, ep;
  };
  // 8 experts over 3 and 12 columns over 5 are uneven.
  for (const World world : {World{1, 1, 2}, World{1, 1, 3}, World{1, 1, 4}, World{1, 2, 1}, World{1, 5, 1},
                            World{1, 2, 2}, World{1, 5, 3}, World{2, 1, 1}, World{2, 2, 2}, World{3, 1, 2}}) {
    PlanNumbers n = one;
    n.dp = world.dp;
    n.tp = world.tp;
    n.ep = world.ep;
    const auto session = MakeSession(n, folder.path());
    for (const uint32_t tokens : {0u, 1u, 7u, 33u}) {
      const std::vector<float> hidden = Hidden(n, tokens);
      for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
        const std::string where = absl::StrCat("dp ", n.dp, " tp ", n.tp, " ep ", n.ep, " tokens ", tokens);
        const Ran expected = RunLayer(*alone, phase, tokens, hidden);
        const Ran ran = RunLayer(*session, phase, tokens, hidden);
        ASSERT_TRUE(ran.status.ok()) << where << ran.status;
        EXPECT_LE(RelativeDifference(ran.output, expected.output), kWorldsAgree) << where;
        EXPECT_EQ(ran.result.expert_ids, expected.result.expert_ids) << where;
        EXPECT_EQ(ran.result.expert_weights, expected.result.expert_weights) << where;
        uint64_t gate_up = 0;
        uint64_t down = 0;
        for (const RankReport& report : ran.result.ranks) {
          EXPECT_TRUE(report.ran);
          EXPECT_EQ(report.counters.gate_up_slots, report.counters.down_slots);
          gate_up += report.counters.gate_up_slots;
          down += report.counters.down_slots;
        }
        EXPECT_EQ(gate_up, uint64_t{tokens} * n.top_k * n.tp) << where;
        EXPECT_EQ(down, gate_up) << where;
      }
    }
  }
}

TEST(SessionTest, DecodeIsPrefillWhateverTheChunk) {
  PlanNumbers n;
  n.ep = 2;
  const TempFolder folder;
  WriteCheckpoint(folder.path(), RandomCheckpoint(support::BuildPlan(n), 4));
  const std::vector<float> hidden = Hidden(n, 33);
  const Ran decode = RunLayer(*MakeSession(n, folder.path()), Phase::kDecode, 33, hidden);
  ASSERT_TRUE(decode.status.ok()) << decode.status;
  for (const uint32_t chunk : {1u, 2u, 32u, 33u, 64u}) {
    n.prefill_chunk = chunk;
    const Ran prefill = RunLayer(*MakeSession(n, folder.path()), Phase::kPrefill, 33, hidden);
    ASSERT_TRUE(prefill.status.ok()) << prefill.status;
    // The reference backend has one order for each dot product, so the two programs give the same bits.
    EXPECT_EQ(prefill.output, decode.output) << chunk;
    EXPECT_EQ(prefill.result.expert_ids, decode.result.expert_ids) << chunk;
  }
}

TEST(SessionTest, TokensOfOneExpertLeaveOtherRanksWithoutProjections) {
  PlanNumbers n;
  n.ep = 4;
  n.top_k = 1;
  const TempFolder folder;
  Checkpoint checkpoint = RandomCheckpoint(support::BuildPlan(n), 5);
  std::vector<float>& router = Tensor(checkpoint, "layers.0.router").values;
  for (size_t i = 0; i < router.size(); ++i) router[i] = i / n.hidden == 5 ? 1.0f : -1.0f;
  WriteCheckpoint(folder.path(), checkpoint);
  const auto session = MakeSession(n, folder.path());
  std::vector<float> hidden = Hidden(n, 7);
  for (float& value : hidden) value = std::fabs(value);
  for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
    const Ran ran = RunLayer(*session, phase, 7, hidden);
    ASSERT_TRUE(ran.status.ok()) << ran.status;
    EXPECT_EQ(ran.result.expert_ids, std::vector<int32_t>(7, 5));
    const std::vector<uint64_t> expected = {0, 0, 7, 0};  // expert 5 of 8 over 4 ranks: rank 2
    for (size_t rank = 0; rank < expected.size(); ++rank) {
      EXPECT_EQ(ran.result.ranks[rank].counters.gate_up_slots, expected[rank]);
      EXPECT_EQ(ran.result.ranks[rank].counters.down_slots, expected[rank]);
    }
    // The other three addends are exact zeros: the sum is the lone rank's addend, as world 1 computes it.
    n.ep = 1;
    EXPECT_EQ(ran.output, RunLayer(*MakeSession(n, folder.path()), phase, 7, hidden).output);
    n.ep = 4;
  }
}

// For each rank a folder in which every atom that it does not own is NaN.
TEST(SessionTest, AtomsOfOtherRanksAreNeverUsed) {
  PlanNumbers n;
  n.tp = 2;
  n.ep = 2;
  const TempFolder folder;
  const Checkpoint clean = RandomCheckpoint(support::BuildPlan(n), 6);
  const std::vector<float> hidden = Hidden(n, 33);
  const auto whole = MakeSession(n, WriteCheckpoint(folder.path() / "clean", clean));

  const auto poisoned = [&](uint32_t rank) {
    const uint32_t tp = rank / 2;
    const uint32_t ep = rank % 2;
    Checkpoint checkpoint = clean;
    for (uint32_t expert = 0; expert < n.experts; ++expert) {
      for (uint32_t c = 0; c < n.intermediate; ++c) {
        if (expert / 4 == ep && c / 6 == tp) continue;
        const std::string name = absl::StrCat("layers.0.experts.", expert, ".");
        for (uint32_t h = 0; h < n.hidden; ++h) {
          Tensor(checkpoint, name + "gate").values[c * n.hidden + h] = std::nanf("");
          Tensor(checkpoint, name + "up").values[c * n.hidden + h] = std::nanf("");
          Tensor(checkpoint, name + "down").values[h * n.intermediate + c] = std::nanf("");
        }
      }
    }
    return checkpoint;
  };
  std::vector<std::filesystem::path> folders;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    folders.push_back(WriteCheckpoint(folder.path() / absl::StrCat(rank), poisoned(rank)));
  }
  absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(support::BuildSealedPlan(n), Options(folders));
  ASSERT_TRUE(session.ok()) << session.status();
  for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
    const Ran expected = RunLayer(*whole, phase, 33, hidden);
    const Ran ran = RunLayer(**session, phase, 33, hidden);
    ASSERT_TRUE(ran.status.ok()) << ran.status;
    EXPECT_EQ(ran.output, expected.output);
  }

  // Not vacuous: one NaN in an atom that rank 3 owns (expert 4, column 6) is seen.
  for (const char* name : {"gate", "up", "down"}) {
    Checkpoint broken = poisoned(3);
    const size_t element = std::string(name) == "down" ? 6 : 6 * n.hidden;
    Tensor(broken, absl::StrCat("layers.0.experts.4.", name)).values[element] = std::nanf("");
    folders[3] = WriteCheckpoint(folder.path() / "broken", broken);
    session = Session::Create(support::BuildSealedPlan(n), Options(folders));
    ASSERT_TRUE(session.ok()) << session.status();
    const Ran ran = RunLayer(**session, Phase::kDecode, 33, hidden);
    EXPECT_EQ(ran.status.message(),
              "rank 3 (dp0 pp0 tp1 ep1): layer 0, step 4 combine: token 1: the output of expert 4 is not finite")
        << name;
    EXPECT_EQ(ReasonOf(ran.status), Reason::kNonFinite);
  }
}

TEST(SessionTest, ResidentBytesAreThePlansCharge) {
  PlanNumbers n;
  n.layers = 5;
  n.moe_layers = {{1, 4}};
  n.pp = 2;
  n.tp = 5;
  n.ep = 3;
  n.dtype = DType::kBf16;
  const Plan plan = support::BuildPlan(n);
  const TempFolder folder;
  WriteCheckpoint(folder.path(), RandomCheckpoint(plan, 7));
  const auto session = MakeSession(n, folder.path());
  uint64_t sum = 0;
  for (uint32_t rank = 0; rank < 30; ++rank) {
    EXPECT_EQ(session->resident_weight_bytes(rank), plan.memory[rank].weights);
    EXPECT_EQ(session->work_bytes(rank), std::max(plan.memory[rank].decode_work, plan.memory[rank].prefill_work));
    sum += session->resident_weight_bytes(rank);
  }
  // Every expert byte once, every router on the 15 ranks of its stage.
  const uint64_t experts = 3 * 2 * uint64_t{n.experts} * n.intermediate * n.hidden;
  const uint64_t router = 2 * uint64_t{n.experts} * n.hidden;
  EXPECT_EQ(sum, 3 * (experts + 15 * router));
}

TEST(SessionTest, OnlyTheStageOfALayerRuns) {
  PlanNumbers n;
  n.layers = 3;
  n.pp = 2;
  n.ep = 2;
  const TempFolder folder;
  Checkpoint checkpoint = RandomCheckpoint(support::BuildPlan(n), 8);
  WriteCheckpoint(folder.path(), checkpoint);
  const auto session = MakeSession(n, folder.path());
  const std::vector<float> hidden = Hidden(n, 7);
  for (const uint32_t layer : {0u, 1u, 2u}) {
    const Ran ran = RunLayer(*session, Phase::kDecode, 7, hidden, layer);
    ASSERT_TRUE(ran.status.ok()) << ran.status;
    EXPECT_LE(RelativeDifference(ran.output, Oracle(n, layer, checkpoint, hidden).hidden), kOracleAgrees);
    for (uint32_t rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(ran.result.ranks[rank].ran, (layer < 2) == (rank < 2));
    }
  }
}

// Of the 16 float32 of a row a rank receives those of the 7 tokens from each other member, whatever the rounds.
TEST(SessionTest, RanksTellWhatTheirCollectivesMovedAndTook) {
  struct Case {
    std::string name;
    PlanNumbers numbers;
    Phase phase = Phase::kDecode;
    uint64_t collectives = 0;
    uint64_t bytes = 0;
  };
  std::vector<Case> cases(6);
  cases[0].name = "a group of one";
  cases[0].numbers.ep = 1;
  cases[1] = {"one sum", {}, Phase::kDecode, 1, 3 * 7 * 16 * 4};
  cases[1].numbers.ep = 4;
  cases[2] = {"a sum each of two rounds", {}, Phase::kPrefill, 2, 3 * 7 * 16 * 4};
  cases[2].numbers.ep = 4;
  cases[2].numbers.prefill_chunk = 5;
  // Of the other group's rows the floats, of its own the addends.
  cases[3] = {"a gather and a sum", {}, Phase::kDecode, 2, 7 * 16 * 4};
  cases[3].numbers.ep = 2;
  cases[3].numbers.dense_tp = 1;
  cases[4] = {"half a piece, and half the sum", {}, Phase::kDecode, 1, 7 * 16 * 4};
  cases[4].numbers.ep = 2;
  cases[4].numbers.reduction = Reduction::kFast;
  cases[5] = {"of int64", {}, Phase::kDecode, 1, 7 * 16 * 8};
  cases[5].numbers.ep = 2;
  cases[5].numbers.reduction = Reduction::kExact;
  for (const Case& c : cases) {
    const TempFolder folder;
    WriteCheckpoint(folder.path(), RandomCheckpoint(support::BuildPlan(c.numbers), 6));
    const auto session = MakeSession(c.numbers, folder.path());
    const std::vector<float> hidden = Hidden(c.numbers, 7);
    for (int call = 0; call < 2; ++call) {  // none of a call counts in the next
      const Ran ran = RunLayer(*session, c.phase, 7, hidden);
      ASSERT_TRUE(ran.status.ok()) << c.name << ": " << ran.status;
      for (const RankReport& report : ran.result.ranks) {
        EXPECT_EQ(report.collectives, c.collectives) << c.name;
        EXPECT_EQ(report.collective_bytes, c.bytes) << c.name;
        EXPECT_EQ(report.waited_seconds > 0, c.collectives > 0) << c.name;
        EXPECT_EQ(report.collective_seconds > 0, c.collectives > 0) << c.name;
        EXPECT_GT(report.computing_seconds(), 0) << c.name;
      }
    }
  }
}

TEST(SessionTest, AStackReadsEachLayersOutput) {
  PlanNumbers n;
  n.layers = 4;
  n.moe_layers = {{1, 4}};
  n.ep = 2;
  n.residual = Residual::kAdd;
  const TempFolder folder;
  WriteCheckpoint(folder.path(), RandomCheckpoint(support::BuildPlan(n), 9));
  const auto session = MakeSession(n, folder.path());
  std::vector<float> hidden = Hidden(n, 7);
  std::vector<float> output(hidden.size());
  std::vector<RunResult> results;
  const absl::Status status = session->RunStack({Phase::kPrefill, 7, hidden, absl::MakeSpan(output)}, &results);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(results.size(), 3u);
  for (const uint32_t layer : {1u, 2u, 3u}) {
    const Ran ran = RunLayer(*session, Phase::kPrefill, 7, hidden, layer);
    EXPECT_EQ(ran.result.expert_ids, results[layer - 1].expert_ids);
    hidden = ran.output;
  }
  EXPECT_EQ(output, hidden);
}

TEST(SessionTest, ANonFiniteTokenEndsAllRanksAtOneStep) {
  PlanNumbers n;
  n.ep = 3;
  n.layers = 2;
  n.prefill_chunk = 4;
  const TempFolder folder;
  WriteCheckpoint(folder.path(), RandomCheckpoint(support::BuildPlan(n), 11));
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
      const auto session = MakeSession(n, folder.path());
      std::vector<float> hidden = Hidden(n, 7);
      hidden[6 * n.hidden + 3] = bad;  // in the second chunk of a prefill
      const Ran ran = RunLayer(*session, phase, 7, hidden, 1);
      const std::string text = "layer 1, step 0 route: token 6: the router score of expert 0 is not finite";
      EXPECT_EQ(ran.status.message(), "rank 0 (dp0 pp0 tp0 ep0): " + text);
      EXPECT_EQ(ReasonOf(ran.status), Reason::kNonFinite);
      for (const RankReport& report : ran.result.ranks) {
        EXPECT_EQ(report.status.message(), text);
        EXPECT_EQ(ReasonOf(report.status), Reason::kNonFinite);
      }
      for (const float value : ran.output) EXPECT_TRUE(std::isnan(value));
      const Ran again = RunLayer(*session, phase, 1, Hidden(n, 1));
      EXPECT_EQ(again.status.message(), "the session is over: rank 0 (dp0 pp0 tp0 ep0): " + text);
      EXPECT_EQ(ReasonOf(again.status), Reason::kNonFinite);
    }
  }
}

// Only the second replica fails; its tokens are counted in the caller's numbers.
TEST(SessionTest, OneReplicasFailureEndsTheRun) {
  PlanNumbers n;
  n.dp = 2;
  n.ep = 2;
  const TempFolder folder;
  WriteCheckpoint(folder.path(), RandomCheckpoint(support::BuildPlan(n), 12));
  std::vector<float> hidden = Hidden(n, 7);
  hidden[5 * n.hidden] = std::nanf("");
  const Ran ran = RunLayer(*MakeSession(n, folder.path()), Phase::kDecode, 7, hidden);
  EXPECT_EQ(ran.status.message(),
            "rank 2 (dp1 pp0 tp0 ep0): layer 0, step 0 route: token 5: the router score of expert 0 is not finite");
  // The other replica is done or is ended.
  for (const uint32_t rank : {0u, 1u}) {
    const absl::Status& status = ran.result.ranks[rank].status;
    EXPECT_TRUE(status.ok() || ReasonOf(status) == Reason::kPeerFailed) << status;
  }
  EXPECT_FALSE(ran.result.ranks[3].status.ok());
}

TEST(SessionTest, LimitsAndSizesAreCheckedBeforeAnythingRuns) {
  PlanNumbers n;
  n.dp = 2;
  n.decode_tokens = 3;
  n.prefill_tokens = 5;
  n.prefill_chunk = 2;
  n.layers = 2;
  n.moe_layers = {{1, 2}};
  const TempFolder folder;
  WriteCheckpoint(folder.path(), RandomCheckpoint(support::BuildPlan(n), 13));
  const auto session = MakeSession(n, folder.path());
  const auto refusal = [&](uint32_t layer, Phase phase, uint32_t tokens, size_t rows) {
    const Ran ran = RunLayer(*session, phase, tokens, Hidden(n, static_cast<uint32_t>(rows)), layer);
    EXPECT_TRUE(ran.result.ranks.empty());
    return ran.status;
  };
  absl::Status status = refusal(1, Phase::kDecode, 7, 7);
  EXPECT_EQ(status.message(), "a decode of 7 tokens gives 4 to a replica, the plan's decode_tokens is 3");
  EXPECT_EQ(ReasonOf(status), Reason::kLimit);
  status = refusal(1, Phase::kPrefill, 11, 11);
  EXPECT_EQ(status.message(), "a prefill of 11 tokens gives 6 to a replica, the plan's prefill_tokens is 5");
  EXPECT_EQ(ReasonOf(status), Reason::kLimit);
  status = refusal(0, Phase::kDecode, 1, 1);
  EXPECT_EQ(status.message(), "layer 0 is not a layer with experts of this plan");
  EXPECT_EQ(ReasonOf(status), Reason::kUsage);
  status = refusal(1, Phase::kInvalid, 1, 1);
  EXPECT_EQ(status.message(), "a run has the phase decode or prefill");
  status = refusal(1, Phase::kDecode, 2, 1);
  EXPECT_EQ(status.message(), "hidden has 16 and output 16 elements, 2 tokens have 32");
  EXPECT_EQ(ReasonOf(status), Reason::kUsage);
  std::vector<float> shared(3 * n.hidden);
  RunResult result;
  status = session->Run({1, Phase::kDecode, 2, absl::MakeSpan(shared).first(2 * n.hidden),
                         absl::MakeSpan(shared).subspan(n.hidden, 2 * n.hidden)},
                        &result);
  EXPECT_EQ(status.message(), "hidden and output overlap");
  EXPECT_EQ(ReasonOf(status), Reason::kUsage);
  // None of these ended the session.
  const Ran ran = RunLayer(*session, Phase::kPrefill, 10, Hidden(n, 10), 1);
  EXPECT_TRUE(ran.status.ok()) << ran.status;
}

TEST(SessionTest, OptionsAreRefusedBeforeAnythingIsOpened) {
  PlanNumbers n;
  n.dp = 2;
  const auto create = [&](const PlanNumbers& numbers, auto change) {
    SessionOptions options = Options({"/does/not/exist"});
    change(options);
    return Session::Create(support::BuildSealedPlan(numbers), options).status();
  };
  absl::Status status = create(n, [](SessionOptions& o) { o.unverified_weights = false; });
  EXPECT_EQ(status.message(), "the plan binds no weights digests; allow unverified weights to run it all the same");
  EXPECT_EQ(ReasonOf(status), Reason::kWeightsUnverified);
  status = create(n, [](SessionOptions& o) { o.backend = "cpu"; });
  EXPECT_EQ(status.message(), "backend 'cpu' is not built, this version has 'reference'");
  EXPECT_EQ(ReasonOf(status), Reason::kNotBuilt);
  status = create(n, [](SessionOptions& o) { o.weights.clear(); });
  EXPECT_EQ(status.message(), "0 weights folders for 2 ranks, expected one for all or one per rank");
  EXPECT_EQ(ReasonOf(status), Reason::kUsage);
  n.transport = Transport::kNccl;
  status = create(n, [](SessionOptions&) {});
  EXPECT_EQ(status.message(),
            "the plan's mesh has transport nccl, the ranks would be on inproc: that is an emulation, and not allowed");
  EXPECT_EQ(ReasonOf(status), Reason::kUsage);
  status = create(n, [](SessionOptions& o) { o.emulate = true; });
  EXPECT_EQ(ReasonOf(status), Reason::kWeightsFile);
}

TEST(SessionTest, APlanThatWasMovedFromIsRefused) {
  SealedPlan plan = support::BuildSealedPlan({});
  const SealedPlan taken = std::move(plan);
  const absl::Status status = Session::Create(std::move(plan), Options({"/does/not/exist"})).status();
  EXPECT_EQ(status.message(), "the plan was moved from: it is another session's");
  EXPECT_EQ(ReasonOf(status), Reason::kUsage);
}

TEST(SessionTest, ARankWithoutWeightsEndsAllWithItsCause) {
  PlanNumbers n;
  n.ep = 4;
  const TempFolder folder;
  const auto good = WriteCheckpoint(folder.path() / "good", RandomCheckpoint(support::BuildPlan(n), 14));
  const auto missing = folder.path() / "missing";
  const absl::StatusOr<std::unique_ptr<Session>> session =
      Session::Create(support::BuildSealedPlan(n), Options({good, good, missing, good}));
  EXPECT_EQ(session.status().message(), absl::StrCat("rank 2 (dp0 pp0 tp0 ep2): ", missing.string(),
                                                     ": cannot be opened: No such file or directory"));
  EXPECT_EQ(ReasonOf(session.status()), Reason::kWeightsFile);
}

}  // namespace
}  // namespace meshseal::runtime
