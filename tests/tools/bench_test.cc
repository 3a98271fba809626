// What a bench counts: tokens asked for, and what a call's routing makes ranks read and compute.
#include "tools/run/bench.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schema/reason.h"
#include "schema/simulate/calibration.h"
#include "tests/support/plan_builder.h"
#include "tools/run/bench_collective.h"
#include "tools/run/bench_work.h"
#include "tools/run/machine_limits.h"

namespace meshseal::tools {
namespace {

using support::PlanNumbers;

TEST(TokenCounts, AreANumberAListOrARange) {
  EXPECT_EQ(*TokenCounts("8"), (std::vector<uint32_t>{8}));
  EXPECT_EQ(*TokenCounts("1,8,64"), (std::vector<uint32_t>{1, 8, 64}));
  EXPECT_EQ(*TokenCounts("1..4096*2"),
            (std::vector<uint32_t>{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096}));
  EXPECT_EQ(*TokenCounts("3..100*10"), (std::vector<uint32_t>{3, 30}));
  for (const char* text : {"", "0", "-1", "8,", "8,8", "8,4", "1..4096", "1..4096*1", "5..4*2", "..4*2", "1..*2", "x",
                           "1..4*2*2", "99999999999", "16777217"}) {
    const absl::Status status = TokenCounts(text).status();
    EXPECT_EQ(ReasonOf(status), Reason::kUsage) << text;
    EXPECT_EQ(
        std::string(status.message()),
        std::string("--tokens ") + text + ": expected ascending numbers such as 8 or 1,8,64, or a range 1..4096*2");
  }
}

TEST(NormalNumbers, AreTheSameForASeedAndNormal) {
  const std::vector<float> numbers = NormalNumbers(7, 10000);
  EXPECT_EQ(NormalNumbers(7, 10000), numbers);
  EXPECT_NE(NormalNumbers(8, 10000), numbers);
  double sum = 0;
  double squares = 0;
  for (const float number : numbers) {
    sum += number;
    squares += double{number} * number;
  }
  EXPECT_NEAR(sum / 10000, 0, 0.05);
  EXPECT_NEAR(squares / 10000, 1, 0.05);
}

TEST(DistinctExperts, AreDistinctPerToken) {
  const std::vector<int32_t> experts = DistinctExperts(7, 50, 3, 5);
  ASSERT_EQ(experts.size(), 150u);
  for (size_t token = 0; token < 50; ++token) {
    const std::set<int32_t> chosen(experts.begin() + static_cast<ptrdiff_t>(token * 3),
                                   experts.begin() + static_cast<ptrdiff_t>(token * 3 + 3));
    EXPECT_EQ(chosen.size(), 3u);
    EXPECT_GE(*chosen.begin(), 0);
    EXPECT_LT(*chosen.rbegin(), 5);
  }
}

constexpr uint64_t kRouter = 8 * 16;
constexpr uint64_t kExpert = 3 * 12 * 16;

TEST(WorkOf, CountsATouchedExpertOnce) {
  const Plan plan = support::BuildPlan({});
  const std::vector<RankWork> work = WorkOf(plan, 0, Phase::kDecode, 2, {1, 5, 5, 7});
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(work[0].weight_bytes, 4 * (kRouter + 3 * kExpert));
  EXPECT_EQ(work[0].operations, 2 * (2 * kRouter + 4 * kExpert));
}

TEST(WorkOf, GivesEachRankItsOwn) {
  PlanNumbers n;
  n.dp = 2;
  n.tp = 2;
  n.ep = 2;
  const Plan plan = support::BuildPlan(n);
  // Token 0 is of replica 0, token 1 of replica 1; experts 0-3 lie on ep 0.
  const std::vector<RankWork> work = WorkOf(plan, 0, Phase::kDecode, 2, {1, 2, 2, 7});
  ASSERT_EQ(work.size(), 8u);
  EXPECT_EQ(work[0].weight_bytes, 4 * (kRouter + 2 * kExpert / 2));
  EXPECT_EQ(work[1].weight_bytes, 4 * kRouter);
  EXPECT_EQ(work[2].weight_bytes, work[0].weight_bytes);  // the other columns
  EXPECT_EQ(work[4].weight_bytes, 4 * (kRouter + kExpert / 2));
  EXPECT_EQ(work[5].weight_bytes, work[4].weight_bytes);
}

TEST(WorkOf, ReadsAnExpertOnceAChunkAndOnTheStageThatHoldsIt) {
  PlanNumbers n;
  n.pp = 2;
  n.layers = 2;
  n.prefill_chunk = 2;
  n.prefill_tokens = 8;
  const Plan plan = support::BuildPlan(n);
  const std::vector<RankWork> work = WorkOf(plan, 1, Phase::kPrefill, 3, {1, 2, 1, 2, 1, 2});
  EXPECT_EQ(work[0].weight_bytes, 0u);
  EXPECT_EQ(work[1].weight_bytes, 4 * 2 * (kRouter + 2 * kExpert));
}

TEST(WorkOf, TakesTheCopyThatComputes) {
  PlanNumbers n;
  n.ep = 2;
  n.copies = 1;  // of expert 0, on ep 1
  const Plan plan = support::BuildPlan(n);
  const std::vector<RankWork> work = WorkOf(plan, 0, Phase::kDecode, 2, {0, 1, 0, 1});
  EXPECT_EQ(work[0].weight_bytes, 4 * (kRouter + 2 * kExpert));  // token 0
  EXPECT_EQ(work[1].weight_bytes, 4 * (kRouter + kExpert));      // token 1
}

TEST(MeasureMachine, FindsWhatTheMachineCan) {
  const absl::StatusOr<MachineLimits> limits = MeasureMachine(1);
  ASSERT_TRUE(limits.ok()) << limits.status();
  EXPECT_GT(limits->read_bytes_per_second, 1e6);
  EXPECT_LT(limits->read_bytes_per_second, 1e13);
  EXPECT_GT(limits->operations_per_second, 1e6);
  EXPECT_LT(limits->operations_per_second, 1e13);
  EXPECT_GE(limits->buffer_bytes, uint64_t{64} << 20);
}

runtime::RankReport Report(uint64_t collectives, uint64_t bytes, double seconds) {
  runtime::RankReport report;
  report.collectives = collectives;
  report.collective_bytes = bytes;
  report.collective_seconds = seconds;
  return report;
}

TEST(CollectiveOf, IsTheLeastCallsSlowestMember) {
  const std::optional<BenchCollective> found =
      CollectiveOf({{Report(1, 64, 0.5), Report(1, 32, 0.25)},     // the second alone would be the least of all
                    {Report(1, 64, 0.125), Report(1, 32, 0.375)},  // this one
                    {Report(1, 64, 0.75), Report(1, 32, 0.0625)}});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->rank, 1u);
  EXPECT_EQ(found->calls, 1u);
  EXPECT_EQ(found->bytes, 32);
  EXPECT_EQ(found->seconds, 0.375);
}

TEST(CollectiveOf, IsTheMeanOfARanksOwn) {
  // Replicas may run other numbers of rounds: 0.5 s each of two, 0.75 s of one.
  const std::optional<BenchCollective> found = CollectiveOf({{Report(2, 96, 1), Report(1, 32, 0.75)}});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->rank, 1u);
  EXPECT_EQ(found->calls, 1u);
  EXPECT_EQ(found->bytes, 32);
  EXPECT_EQ(found->seconds, 0.75);
  EXPECT_EQ(CollectiveOf({{Report(2, 96, 1)}})->bytes, 48);
  EXPECT_EQ(CollectiveOf({{Report(2, 96, 1)}})->seconds, 0.5);
}

TEST(CollectiveOf, IsNothingWhereNobodyReceived) {
  EXPECT_FALSE(CollectiveOf({}).has_value());
  EXPECT_FALSE(CollectiveOf({{runtime::RankReport{}}}).has_value());
  // A replica without tokens meets all the same.
  EXPECT_EQ(CollectiveOf({{Report(1, 0, 9), Report(1, 8, 0.5)}})->rank, 1u);
}

TEST(BenchRowText, IsALineInEveryFormat) {
  BenchHead head;
  head.plan_id = std::string(64, 'a');
  head.version = "0.1.0";
  head.backend = "reference";
  head.ranks = 2;
  head.machine = {"a processor", 4, 1024};
  head.limits = {4e9, 8e9, 1 << 20, 2};
  BenchRow row;
  row.phase = Phase::kDecode;
  row.layer = 3;
  row.tokens = 8;
  row.repeats = 2;
  row.median = 0.5;
  row.least = 0.25;
  row.most = 0.75;
  row.weight_bytes = 1000000000;
  row.operations = 500000000;
  row.share = 0.5;
  row.slowest_rank = 1;
  row.rank_seconds = 0.5;
  row.rank_weight_bytes = 7;
  row.rank_operations = 9;
  row.waited = 0.25;
  row.collective = BenchCollective{1, 1, 3072, 0.125};
  EXPECT_EQ(
      BenchHeadText(head, "md"),
      absl::StrCat("plan ", head.plan_id,
                   ", 2 ranks over reference; meshseal 0.1.0\nmachine: a processor, 4 cores; with 2 threads at "
                   "most 4.00 GB/s read from memory and 8.00 GFLOP/s in float32\n\n"
                   "| phase | layer | tokens | ms a call | spread | tok/s | GB/s | GFLOP/s | of limit | collective "
                   "| wait | #wrong |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n"));
  EXPECT_EQ(BenchRowText(head, row, "md"),
            "| decode | 3 | 8 | 500.000 | 250.000-750.000 | 16 | 2 | 1 | 50.0 % | 3.0 KiB in 125000.0 us | 250000.0 us "
            "| 0 |\n");
  EXPECT_EQ(BenchHeadText(head, "csv"),
            "phase,layer,tokens,seconds,least_seconds,most_seconds,tokens_per_second,weight_bytes_per_second,"
            "operations_per_second,share_of_limit,collectives,collective_bytes,collective_seconds,waited_seconds,"
            "wrong\n");
  EXPECT_EQ(BenchRowText(head, row, "csv"), "decode,3,8,0.5,0.25,0.75,16,2e+09,1e+09,0.5,1,3072,0.125,0.25,0\n");
  EXPECT_EQ(BenchHeadText(head, "jsonl"), "");
  EXPECT_EQ(
      BenchRowText(head, row, "jsonl"),
      absl::StrCat(
          R"({"version":1,"plan":")", head.plan_id,
          R"(","made_by":"meshseal 0.1.0","backend":"reference","emulated":false,"ranks":2,)"
          R"("phase":"decode","layer":3,"tokens":8,"repeats":2,"seconds":0.5,"least_seconds":0.25,)"
          R"("most_seconds":0.75,"tokens_per_second":16.0,"weight_bytes":1000000000,)"
          R"("weight_bytes_per_second":2000000000.0,"operations":500000000,)"
          R"("operations_per_second":1000000000.0,"share_of_limit":0.5,)"
          R"("slowest_rank":{"rank":1,"seconds":0.5,"weight_bytes":7,"operations":9},)"
          R"("waited_seconds":0.25,)"
          R"("collective":{"rank":1,"calls":1,"bytes":3072.0,"seconds":0.125},"wrong":0,"machine":{"processor":"a processor","cores":4,)"
          R"("cache_bytes":1024,"threads":2,"read_bytes_per_second":4000000000.0,)"
          R"("operations_per_second":8000000000.0}})",
          "\n"));
  row.collective->calls = 2;
  EXPECT_EQ(BenchRowText(head, row, "md"),
            "| decode | 3 | 8 | 500.000 | 250.000-750.000 | 16 | 2 | 1 | 50.0 % | 2 x 3.0 KiB in 125000.0 us | "
            "250000.0 us | 0 |\n");
  // Groups of one.
  row.collective.reset();
  row.waited = 0;
  EXPECT_EQ(BenchRowText(head, row, "md"),
            "| decode | 3 | 8 | 500.000 | 250.000-750.000 | 16 | 2 | 1 | 50.0 % | - | - | 0 |\n");
  EXPECT_EQ(BenchRowText(head, row, "csv"), "decode,3,8,0.5,0.25,0.75,16,2e+09,1e+09,0.5,0,0,0,0,0\n");
  // Devices, of which no limit is known.
  head.backend = "cuda-loopback";
  head.emulated = true;
  head.limits.reset();
  row.share.reset();
  EXPECT_TRUE(
      absl::StrContains(BenchHeadText(head, "md"),
                        ", 2 ranks over cuda-loopback, EMULATED; meshseal 0.1.0\nmachine: a processor, 4 cores; "
                        "limits of devices are not measured\n\n| phase"));
  EXPECT_EQ(BenchRowText(head, row, "md"),
            "| decode | 3 | 8 | 500.000 | 250.000-750.000 | 16 | 2 | 1 | - | - | - | 0 |\n");
  EXPECT_EQ(BenchRowText(head, row, "csv"), "decode,3,8,0.5,0.25,0.75,16,2e+09,1e+09,,0,0,0,0,0\n");
  const std::string line = BenchRowText(head, row, "jsonl");
  EXPECT_TRUE(absl::StrContains(line, R"("share_of_limit":null)")) << line;
  EXPECT_TRUE(absl::StrContains(line, R"("machine":{"processor":"a processor","cores":4,"cache_bytes":1024}})"))
      << line;
  EXPECT_TRUE(
      absl::StrContains(BenchRowText(head, row, "jsonl"), R"("waited_seconds":0.0,"collective":null,"wrong":0)"));
}

// What is written here is read there.
TEST(BenchRowText, CalibratesASimulation) {
  BenchHead head;
  head.plan_id = std::string(64, 'a');
  head.backend = "reference";
  BenchRow row;
  row.phase = Phase::kPrefill;
  row.layer = 3;
  row.tokens = 8;
  row.median = 0.5;
  row.rank_seconds = 0.25;
  row.rank_weight_bytes = 1000;
  row.rank_operations = 500;
  std::string lines = BenchRowText(head, row, "jsonl");
  row.collective = BenchCollective{2, 1, 1000, 1.5};
  lines += BenchRowText(head, row, "jsonl");
  row.collective = BenchCollective{1, 4, 3000, 2.5};
  lines += BenchRowText(head, row, "jsonl");
  const absl::StatusOr<Calibration> read = ParseCalibration("b", lines);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->lines, 3u);
  EXPECT_EQ(read->collective_lines, 2u);
  EXPECT_DOUBLE_EQ(*read->rates.bytes, 4000);
  EXPECT_DOUBLE_EQ(*read->rates.operations, 2000);
  ASSERT_TRUE(read->rates.link.has_value());
  EXPECT_DOUBLE_EQ(read->rates.link->latency, 1);
  EXPECT_DOUBLE_EQ(read->rates.link->bytes, 2000);
  ASSERT_EQ(read->calls.size(), 3u);
  EXPECT_EQ(read->calls[0].plan, head.plan_id);
  EXPECT_EQ(read->calls[0].phase, Phase::kPrefill);
  EXPECT_EQ(read->calls[0].layer, 3u);
  EXPECT_EQ(read->calls[0].tokens, 8u);
  EXPECT_EQ(read->calls[0].seconds, 0.5);
}

}  // namespace
}  // namespace meshseal::tools
