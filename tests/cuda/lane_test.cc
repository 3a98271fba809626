// The lane of a step, and what a failed rank's addends become.
#include "runtime/cuda/kernels/lane.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "runtime/comm/status_lane.h"
#include "tests/cuda/kernel_buffers.h"

namespace meshseal::cuda {
namespace {

// A step whose words are all good, with room for more tokens than there are.
struct Step {
  explicit Step(uint32_t tokens, uint32_t top_k = 3)
      : step_tokens(Tokens(tokens)),
        experts(RandomExperts(tokens, top_k, 12, 1)),
        weights(Numbers(experts.size(), 2)),
        computed(experts.size()),
        route(tokens, 0),
        down(experts.size() * 2, 0),
        combine(size_t{tokens} * 4, 0) {
    for (size_t slot = 0; slot < computed.size(); ++slot) computed[slot] = slot % 3 == 0 ? 1 : 0;
    for (std::vector<uint64_t>* words : {&route, &down, &combine}) words->resize(words->size() + 5, ~uint64_t{0});
    lane.step = &step_tokens;
    lane.top_k = top_k;
    lane.experts = experts.data();
    lane.weights = weights.data();
    lane.computed = computed.data();
    lane.lists = 4;
    lane.failures[0] = {route.data(), 1, 1};
    lane.failures[1] = {&scatter, 0, 1};
    lane.failures[2] = {down.data(), top_k, 2};
    lane.failures[3] = {combine.data(), 1, 4};
  }

  LaneReport Run() {
    LaneReport report;
    lane.report = &report;
    UnderEverySchedule([&] {
      std::memset(static_cast<void*>(&report), 0xFF, sizeof(report));
      return LaunchLane(nullptr, lane);
    });
    return report;
  }

  StepTokens step_tokens;
  std::vector<int32_t> experts;
  std::vector<float> weights;
  std::vector<uint32_t> computed;
  std::vector<uint64_t> route;
  std::vector<uint64_t> down;
  std::vector<uint64_t> combine;
  uint64_t scatter = 0;
  LaneStep lane;
};

void ExpectFailure(const LaneReport& report, uint32_t list, uint32_t item, uint64_t word) {
  EXPECT_EQ(report.list, list);
  EXPECT_EQ(report.item, item);
  EXPECT_EQ(report.failure, word);
  EXPECT_EQ(report.lane.errors, 1);
  EXPECT_EQ(report.lane.computed_slots, 0);
  EXPECT_EQ(report.lane.routing_digest, 0);
  EXPECT_EQ(report.lane.routing_digest_square, 0);
}

TEST(LaneKernelTest, IsTheHostsLane) {
  for (const uint32_t tokens : {0u, 1u, 7u, 200u}) {
    Step step(tokens);
    uint32_t drain = tokens % 2;
    step.lane.drain = tokens > 1 ? &drain : nullptr;
    const LaneReport report = step.Run();
    runtime::StatusLane expected = runtime::LaneOf(tokens, step.experts, step.weights);  // a third of the slots
    expected.drain = tokens > 1 ? drain : 0;
    EXPECT_EQ(std::memcmp(&report.lane, &expected, sizeof(expected)), 0) << tokens;
    EXPECT_EQ(report.failure, 0u);
  }
}

TEST(LaneKernelTest, TheFirstFailureInOrderIsTheRanks) {
  Step step(100);
  const uint64_t bound = FailureWord(FailureKind::kBound, 5, 0x7F000000);
  const auto output = [](uint32_t expert, uint32_t j) { return FailureWord(FailureKind::kOutput, expert, j); };
  step.combine[4 * 90 + 1] = output(7, 2);
  ExpectFailure(step.Run(), 3, 90, output(7, 2));
  step.combine[4 * 90 + 3] = output(9, 1);  // a lower slot, seen by a later chunk
  ExpectFailure(step.Run(), 3, 90, output(9, 1));
  step.combine[4 * 30 + 2] = output(kSharedExpert, 0);
  ExpectFailure(step.Run(), 3, 30, output(kSharedExpert, 0));
  step.down[2 * 299] = bound;
  ExpectFailure(step.Run(), 2, 299, bound);
  step.down[2 * 299 + 1] = FailureWord(FailureKind::kBound, 5, 1);  // a later chunk
  ExpectFailure(step.Run(), 2, 299, bound);
  step.scatter = FailureWord(FailureKind::kGroupedRows, 0, 17);
  ExpectFailure(step.Run(), 1, 0, step.scatter);
  step.route[99] = FailureWord(FailureKind::kRouterScore, 3, 99);
  step.route[40] = FailureWord(FailureKind::kTokenId, 0, 1000);
  ExpectFailure(step.Run(), 0, 40, step.route[40]);
  uint32_t drain = 1;
  step.lane.drain = &drain;
  EXPECT_EQ(step.Run().lane.drain, 1);
}

TEST(LaneKernelTest, TooManyListsAreRefused) {
  Step step(1);
  step.lane.lists = kMaxFailureLists + 1;
  EXPECT_EQ(LaunchLane(nullptr, step.lane), cudaErrorInvalidValue);
}

TEST(ZeroOnErrorKernelTest, ClearsTheAddendsOfAFailedRankAlone) {
  for (const int64_t errors : {0, 1}) {
    for (const uint32_t tokens : {0u, 3u}) {
      LaneReport report{};
      report.lane.errors = errors;
      const StepTokens step_tokens = Tokens(tokens);
      UnderEverySchedule([&] {
        std::vector<uint32_t> words(5 * 100, 7);
        const cudaError_t status = LaunchZeroOnError(nullptr, {&step_tokens, 5, 100, &report, words.data()});
        for (size_t i = 0; i < words.size(); ++i) EXPECT_EQ(words[i] == 0, errors > 0 && i < tokens * 100u);
        return status;
      });
    }
  }
}

}  // namespace
}  // namespace meshseal::cuda
