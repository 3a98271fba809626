// Plans, played: every rank's collectives, gathers and hand-offs, and the times that follow from the mesh's rates.
#include "schema/simulate/simulate.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schema/mesh_view.h"
#include "schema/reason.h"
#include "tests/schema/sample_plans.h"
#include "tests/support/plan_builder.h"
#include "tests/support/sanitized.h"

namespace meshseal {
namespace {

using support::BuildPlan;
using support::PlanNumbers;

const std::string kId(64, 'a');

Simulation Played(const Plan& plan, const SimulationOptions& options = {}, const Calibration* calibration = nullptr) {
  const absl::StatusOr<Simulation> simulation = Simulate(plan, kId, options, calibration);
  EXPECT_TRUE(simulation.ok()) << simulation.status();
  return simulation.ok() ? *simulation : Simulation{};
}

SimulationOptions Only(Phase phase) {
  SimulationOptions options;
  options.phase = phase;
  return options;
}

TEST(Simulate, EveryValidPlanEnds) {
  for (const samples::SamplePlan& sample : samples::ValidPlans()) {
    for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
      const absl::StatusOr<Simulation> simulation = Simulate(sample.plan, kId, Only(phase), nullptr);
      ASSERT_TRUE(simulation.ok()) << sample.name << ": " << simulation.status();
      EXPECT_GT(simulation->phases[0].played.collectives, 0u) << sample.name;
    }
  }
}

TEST(Simulate, EveryGroupMeetsOnceALayerAndHandsOver) {
  PlanNumbers n;
  n.dp = 2;
  n.pp = 2;
  n.tp = 2;
  n.ep = 3;
  n.layers = 5;
  const Simulation simulation = Played(BuildPlan(n), Only(Phase::kDecode));
  const meshseal::Played& played = simulation.phases[0].played;
  EXPECT_EQ(played.collectives, 2u * 5);
  EXPECT_EQ(played.hand_offs, 2u * 6);
  EXPECT_EQ(played.dense_sums, 0u);
  // route, gate_up, activation, down, combine, collective; a hand-off is one of each of two ranks.
  EXPECT_EQ(played.operations, 2u * 6 * 5 * 6 + 2 * 12);
}

TEST(Simulate, DifferentTokensAreGatheredAndScattered) {
  const Simulation simulation = Played(BuildPlan(samples::Gathering()), Only(Phase::kDecode));
  EXPECT_EQ(simulation.phases[0].played.collectives, 2u);
}

TEST(Simulate, WhatIsNotMoeIsSummedOverDenseGroups) {
  PlanNumbers n = samples::Full();
  n.moe_layers = {{0, 4}};
  const Simulation simulation = Played(BuildPlan(n), Only(Phase::kDecode));
  // In each of 2 replicas: one sum a layer, and one more of the layer without experts.
  EXPECT_EQ(simulation.phases[0].played.dense_sums, 2u * (5 + 1));
  EXPECT_EQ(simulation.phases[0].played.collectives, 2u * 4);
}

TEST(Simulate, ChunksFollowEachOther) {
  PlanNumbers n;
  n.prefill_tokens = 100;
  n.prefill_chunk = 32;
  SimulationOptions options = Only(Phase::kPrefill);
  options.tokens = 100;
  const Simulation simulation = Played(BuildPlan(n), options);
  EXPECT_EQ(simulation.phases[0].played.collectives, 4u);
}

TEST(Simulate, MoreTokensThanTheLimitAreRefused) {
  const Plan plan = BuildPlan({});
  SimulationOptions options = Only(Phase::kDecode);
  options.tokens = 65;
  absl::Status status = Simulate(plan, kId, options, nullptr).status();
  EXPECT_EQ(ReasonOf(status), Reason::kLimit);
  EXPECT_EQ(std::string(status.message()), "decode of 65 tokens, the plan's limit is 64");
  options.tokens = 0;
  status = Simulate(plan, kId, options, nullptr).status();
  EXPECT_EQ(ReasonOf(status), Reason::kUsage);
  EXPECT_EQ(std::string(status.message()), "0 tokens, expected at least 1");
  options.tokens = 1;
  options.layer = 9;
  status = Simulate(plan, kId, options, nullptr).status();
  EXPECT_EQ(ReasonOf(status), Reason::kUsage);
  EXPECT_EQ(std::string(status.message()), "the plan has no MoE layer 9");
}

TEST(Simulate, AMeshThatDoesNotSayItsRatesGivesNoTimes) {
  PlanNumbers n;
  n.ep = 2;
  Plan plan = BuildPlan(n);
  EXPECT_EQ(Played(plan).missing, "device kind 'host' does not state its bandwidth");
  plan.mesh.device_kinds[0].bandwidth = 1;
  EXPECT_EQ(Played(plan).missing, "device kind 'host' does not state its bf16 rate");
  plan.mesh.device_kinds[0].bf16_rate = 1;
  const Simulation simulation = Played(plan);
  EXPECT_EQ(simulation.missing, "the mesh does not state its links");
  EXPECT_EQ(simulation.phases[0].played.critical.total(), 0);
  const std::string text = SimulationText(plan, kId, simulation, nullptr);
  EXPECT_TRUE(absl::StrContains(text, "\n  time unknown: the mesh does not state its links\n")) << text;
  EXPECT_FALSE(absl::StrContains(text, "predicted")) << text;
  plan.mesh.island_links = {{1, 0}};
  EXPECT_EQ(Played(plan).missing, "");
}

// One rank, one layer, one token: 2 of 8 experts, each read once.
TEST(Simulate, AStepTakesWhatItsBytesTake) {
  PlanNumbers n;
  n.priced = true;
  SimulationOptions options = Only(Phase::kDecode);
  options.tokens = 1;
  const Plan plan = BuildPlan(n);
  const Simulation simulation = Played(plan, options);
  const double router = 8 * 16 * 4;
  const double experts = 2 * 3 * 12 * 16 * 4;
  const RankPlayed& rank = simulation.phases[0].played.ranks[0];
  EXPECT_DOUBLE_EQ(rank.weight_bytes, router + experts);
  EXPECT_DOUBLE_EQ(rank.operations, 2.0 * 8 * 16 + 2 * 3 * 2.0 * 12 * 16);
  EXPECT_DOUBLE_EQ(simulation.phases[0].played.critical.weights, (router + experts) / 1e11);
  EXPECT_DOUBLE_EQ(simulation.phases[0].played.critical.total(), simulation.phases[0].played.critical.weights);
}

TEST(Simulate, ASumGathersTheAddendsOfAllOthers) {
  PlanNumbers n;
  n.priced = true;
  n.ep = 4;
  SimulationOptions options = Only(Phase::kDecode);
  options.tokens = 8;
  const Simulation simulation = Played(BuildPlan(n), options);
  EXPECT_DOUBLE_EQ(simulation.phases[0].played.critical.collectives, 2e-6 + 3.0 * (8 * 16 * 4 + 64) / 1e10);
}

// Prefill's largest step decides, also for a rest of it.
TEST(Simulate, ALargeSumExchangesSlicesAndThenTheirSums) {
  PlanNumbers n;
  n.priced = true;
  n.ep = 4;
  n.hidden = 1 << 12;
  n.prefill_tokens = n.prefill_chunk = 100;
  SimulationOptions options = Only(Phase::kPrefill);
  options.tokens = 8;
  const Simulation simulation = Played(BuildPlan(n), options);
  EXPECT_DOUBLE_EQ(simulation.phases[0].played.critical.collectives, 2 * (2e-6 + 3.0 * (8 * 4096 * 4 + 64) / 4 / 1e10));
}

TEST(Simulate, AMeasuredLoadMakesItsRankTheSlowest) {
  PlanNumbers n;
  n.priced = true;
  n.ep = 2;
  n.load = {1, 1, 1, 1, 5, 5, 5, 5};
  const Simulation simulation = Played(BuildPlan(n), Only(Phase::kDecode));
  const std::vector<RankPlayed>& ranks = simulation.phases[0].played.ranks;
  EXPECT_GT(ranks[1].operations, 2 * ranks[0].operations);
}

TEST(Simulate, ACalibrationTakesThePlaceOfTheMesh) {
  Calibration calibration;
  calibration.rates = {1000.0, 1e18, LinkRates{0.5, 1e18}};
  calibration.lines = 3;
  calibration.collective_lines = 2;
  calibration.calls = {{kId, Phase::kDecode, 0, 1, 2.0}, {std::string(64, 'b'), Phase::kDecode, 0, 1, 2.0}};
  PlanNumbers n;
  n.ep = 2;
  SimulationOptions options = Only(Phase::kDecode);
  options.tokens = 1;
  const Plan plan = BuildPlan(n);
  const Simulation simulation = Played(plan, options, &calibration);
  EXPECT_EQ(simulation.missing, "");
  EXPECT_DOUBLE_EQ(simulation.phases[0].played.critical.collectives, 0.5);
  ASSERT_EQ(simulation.compared.size(), 1u);
  // Half of the two experts on each rank.
  const double bytes = 8 * 16 * 4 + 4 * (2.0 / 8) * 3 * 12 * 16 * 4;
  EXPECT_NEAR(simulation.compared[0].predicted, bytes / 1000 + 0.5, 1e-9);
  const std::string text = SimulationText(plan, kId, simulation, &calibration);
  EXPECT_TRUE(absl::StrContains(text,
                                "\ncalibrated: weights 1.0 kB/s and arithmetic 1.0 EFLOP/s a rank, from 3 lines; "
                                "collectives 1.0 EB/s after 500 ms, from 2 lines\n"))
      << text;
  EXPECT_TRUE(absl::StrContains(text, "measured decode of 1 token through layer 0: 2 s, predicted 3.32 s (x 1.66)\n"))
      << text;
}

// dp=8 pp=4 tp=8 ep=16: 4,096 ranks, 61 layers, 58 of them with experts.
TEST(Simulate, FourThousandRanksArePlayed) {
  PlanNumbers n;
  n.dp = support::kSanitized ? 1 : 8;
  n.pp = 4;
  n.tp = 8;
  n.ep = 16;
  n.layers = 61;
  n.moe_layers = {{3, 61}};
  n.hidden = 128;
  n.intermediate = 64;
  n.experts = 256;
  n.top_k = 8;
  n.priced = true;
  n.other_weights = {1000, 61000, 1000};
  const Plan plan = BuildPlan(n);
  const Simulation simulation = Played(plan, Only(Phase::kDecode));
  const meshseal::Played& played = simulation.phases[0].played;
  ASSERT_EQ(played.ranks.size(), *WorldOf(plan.degrees));
  EXPECT_EQ(played.collectives, uint64_t{n.dp} * 58);
  EXPECT_EQ(played.hand_offs, uint64_t{n.dp} * 3 * 128);
  EXPECT_EQ(played.operations, uint64_t{n.dp} * 128 * (58 * 8 + 3 * 3 + 2 * 3));
}

// A line of a bench; what its slowest rank did, and its collective.
std::string Line(double seconds, double bytes, double operations, const std::string& collective) {
  return absl::StrCat(R"({"version": 1, "plan": ")", kId, R"(", "phase": "decode", "layer": 0, "tokens": 4, )",
                      R"("seconds": 0.5, "backend": "reference", "slowest_rank": {"seconds": )", seconds,
                      R"(, "weight_bytes": )", bytes, R"(, "operations": )", operations, R"(}, "collective": )",
                      collective, "}\n");
}

std::string Collective(double bytes, double seconds) {
  return absl::StrCat(R"({"bytes": )", bytes, R"(, "seconds": )", seconds, "}");
}

TEST(Calibration, ReadsTheHighestRates) {
  const absl::StatusOr<Calibration> read = ParseCalibration(
      "b.jsonl", absl::StrCat(Line(2, 100, 10, "null"), "\n", Line(1, 40, 30, "null"), Line(1, 1, 1, "null")));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->lines, 3u);
  EXPECT_EQ(read->collective_lines, 0u);
  EXPECT_DOUBLE_EQ(*read->rates.bytes, 50);
  EXPECT_DOUBLE_EQ(*read->rates.operations, 30);
  EXPECT_FALSE(read->rates.link.has_value());
  EXPECT_EQ(read->calls[0].tokens, 4u);
}

TEST(Calibration, PutsALineOfLeastSquaresThroughTheCollectives) {
  struct Point {
    double bytes;
    double seconds;
  };
  const auto calibration_of = [](const std::vector<Point>& points) {
    std::string text = Line(1, 1, 1, "null");
    for (const Point& point : points) text += Line(1, 1, 1, Collective(point.bytes, point.seconds));
    const absl::StatusOr<Calibration> read = ParseCalibration("b.jsonl", text);
    EXPECT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->lines, points.size() + 1);
    EXPECT_EQ(read->collective_lines, points.size());
    return read->rates.link;
  };
  struct Case {
    std::vector<Point> points;
    double latency;
    double bandwidth;
  };
  const Case kCases[] = {
      {{{10, 3}, {30, 5}}, 2, 10},
      {{{1000, 0.75}, {2000, 1}, {6000, 2}}, 0.5, 4000},
      {{{1000, 1}, {1000, 0.5}, {6000, 2}}, 0.5, 4000},    // of one size the mean counts
      {{{0.5, 1.5}, {1.5, 1.5}, {2.5, 3.5}}, 2.0 / 3, 1},  // none lies on the line
      {{{1000, 1}, {2000, 3}}, 0, 500},                    // would be -1 s
  };
  for (const Case& c : kCases) {
    const std::optional<LinkRates> link = calibration_of(c.points);
    ASSERT_TRUE(link.has_value());
    EXPECT_NEAR(link->latency, c.latency, 1e-12);
    EXPECT_NEAR(link->bytes, c.bandwidth, 1e-9);
  }
  // One size says nothing of a latency, and a larger one that does not take longer nothing of a link.
  EXPECT_FALSE(calibration_of({{10, 3}}).has_value());
  EXPECT_FALSE(calibration_of({{10, 3}, {10, 5}}).has_value());
  EXPECT_FALSE(calibration_of({{10, 3}, {20, 3}}).has_value());
  EXPECT_FALSE(calibration_of({{10, 3}, {20, 2}}).has_value());
}

TEST(Calibration, CollectivesThatTellNoLinkLeaveTheMeshs) {
  PlanNumbers n;
  n.priced = true;
  n.ep = 2;
  const Plan plan = BuildPlan(n);
  const absl::StatusOr<Calibration> read =
      ParseCalibration("b", Line(1, 1, 1, Collective(10, 3)) + Line(1, 1, 1, Collective(20, 2)));
  ASSERT_TRUE(read.ok()) << read.status();
  SimulationOptions options = Only(Phase::kDecode);
  options.tokens = 8;
  const Simulation simulation = Played(plan, options, &*read);
  EXPECT_DOUBLE_EQ(simulation.phases[0].played.critical.collectives, 2e-6 + 1.0 * (8 * 16 * 4 + 64) / 1e10);
  const std::string text = SimulationText(plan, kId, simulation, &*read);
  EXPECT_TRUE(absl::StrContains(
      text, "; collectives as the mesh says: 2 lines with one, no two sizes of which the larger takes longer\n"))
      << text;
}

TEST(Calibration, SaysWhatIsWrongWithALine) {
  const std::string good =
      absl::StrCat(R"({"version": 1, "plan": ")", kId, R"(", "phase": "decode", "layer": 0, "tokens": 4, )",
                   R"("seconds": 0.5, "backend": "reference", "slowest_rank": {"seconds": 1, "weight_bytes": 1, )",
                   R"("operations": 1}, "collective": null})");
  ASSERT_TRUE(ParseCalibration("b", good).ok());
  struct Case {
    std::string from;
    std::string to;
    std::string text;
  };
  const Case kCases[] = {
      {good, "[]", "b:1: the line, expected one JSON object"},
      {good, "{", "b:1: the line, expected one JSON object"},
      {good, " \n", "b: no line of a bench"},
      {R"("version": 1)", R"("version": 2)", "b:1: version, expected 1"},
      {R"("version": 1)", R"("version": "1")", "b:1: version, expected a whole number"},
      {kId, "abc", "b:1: plan, expected a plan id of 64 digits"},
      {R"("decode")", R"("both")", "b:1: phase, expected decode or prefill"},
      {R"("decode")", "5", "b:1: phase, expected a text"},
      {R"("tokens": 4)", R"("tokens": 0)", "b:1: tokens, expected a number above 0"},
      {R"("tokens": 4)", R"("tokens": -4)", "b:1: tokens, expected a whole number"},
      {R"("seconds": 0.5)", R"("seconds": 0)", "b:1: seconds, expected a number above 0"},
      {R"("seconds": 0.5)", R"("second": 1)", "b:1: seconds, expected a number above 0"},
      {R"("weight_bytes": 1)", R"("weight_bytes": null)", "b:1: slowest_rank.weight_bytes, expected a number above 0"},
      {R"(, "collective": null)", "", "b:1: collective, expected an object, or null"},
      {R"("collective": null)", R"("collective": 5)", "b:1: collective, expected an object, or null"},
      {R"("collective": null)", R"("collective": {})", "b:1: collective.bytes, expected a number above 0"},
      {R"("collective": null)", R"("collective": {"bytes": 1})", "b:1: collective.seconds, expected a number above 0"},
      {R"("collective": null)", R"("collective": {"bytes": 0, "seconds": 1})",
       "b:1: collective.bytes, expected a number above 0"},
      {R"("collective": null)", R"("collective": {"bytes": 1, "seconds": -1})",
       "b:1: collective.seconds, expected a number above 0"},
      {R"("collective": null)", R"("collective": {"bytes": 1, "seconds": "fast"})",
       "b:1: collective.seconds, expected a number above 0"},
      {R"("collective": null)", R"("collective": {"bytes": 1, "seconds": null})",
       "b:1: collective.seconds, expected a number above 0"},
      {R"("collective": null)", R"("collective": {"bytes": 1, "seconds": NaN})",
       "b:1: the line, expected one JSON object"},
  };
  for (const Case& c : kCases) {
    std::string text = good;
    text.replace(text.find(c.from), c.from.size(), c.to);
    const absl::Status status = ParseCalibration("b", text).status();
    EXPECT_EQ(ReasonOf(status), Reason::kUsage);
    EXPECT_EQ(std::string(status.message()), c.text);
  }
  std::string other = good;
  other.replace(other.find("reference"), 9, "cpu");
  const absl::Status status = ParseCalibration("b", absl::StrCat(good, "\n", other)).status();
  EXPECT_EQ(std::string(status.message()), "b:2: backend, expected the same on every line");
}

}  // namespace
}  // namespace meshseal
