// The executor with backends that fail, lie or come late: all ranks end at the same step with one cause.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/execute/rank_executor.h"
#include "runtime/reference/reference_backend.h"
#include "runtime/weights/rank_weights.h"
#include "runtime/weights/weight_files.h"
#include "schema/reason.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/inproc_group.h"
#include "tests/support/plan_builder.h"

namespace meshseal::runtime {
namespace {

using support::PlanNumbers;
using support::RandomCheckpoint;
using support::RandomValues;

// The reference backend with one step spoiled; each hook runs after the step it is named for.
class SpoiledBackend : public ReferenceBackend {
 public:
  std::function<absl::Status(const RouteArgs&)> after_route;
  std::function<absl::Status(const DownArgs&)> after_down;
  std::function<absl::Status(const ResidualArgs&)> after_residual;

 protected:
  absl::Status Route(const RouteArgs& args) override { return Then(ReferenceBackend::Route(args), after_route, args); }
  absl::Status Down(const DownArgs& args) override { return Then(ReferenceBackend::Down(args), after_down, args); }
  absl::Status Residual(const ResidualArgs& args) override {
    return Then(ReferenceBackend::Residual(args), after_residual, args);
  }

 private:
  template <class Args>
  static absl::Status Then(absl::Status status, const std::function<absl::Status(const Args&)>& hook,
                           const Args& args) {
    if (!status.ok() || hook == nullptr) return status;
    return hook(args);
  }
};

// Keeps what its rank gave to the last sum.
class SpyCommunicator : public support::PassingCommunicator {
 public:
  using PassingCommunicator::PassingCommunicator;

  ReduceAlgorithm algorithm = ReduceAlgorithm::kInvalid;
  std::vector<float> addend;
  StatusLane lane;

  void SetReduceAlgorithm(ReduceAlgorithm set) override {
    algorithm = set;
    PassingCommunicator::SetReduceAlgorithm(set);
  }
  absl::Status AllReduceSum(absl::Span<const float> own, const StatusLane& own_lane, absl::Span<float> sum,
                            StatusLane* lane_sum) override {
    addend.assign(own.begin(), own.end());
    lane = own_lane;
    return PassingCommunicator::AllReduceSum(own, own_lane, sum, lane_sum);
  }
};

struct RankRun {
  absl::Status status;
  ReduceAlgorithm algorithm = ReduceAlgorithm::kInvalid;
  std::vector<float> addend;
  StatusLane lane;
  StepCounters counters;
  std::vector<float> output;
};

// One layer over 7 tokens on a world of ep 3, with the backends of `backends`.
class World {
 public:
  explicit World(const PlanNumbers& numbers, std::chrono::milliseconds deadline = std::chrono::milliseconds(20'000))
      : plan_(support::BuildSealedPlan(numbers)),
        backends(numbers.ep),
        hidden_(RandomValues(size_t{kTokens} * numbers.hidden, 1)) {
    support::WriteCheckpoint(folder_.path(), RandomCheckpoint(plan_.plan(), 2));
    std::vector<uint32_t> members;
    for (uint32_t rank = 0; rank < numbers.ep; ++rank) members.push_back(rank);
    group_ = support::MakeInprocGroup(numbers.ep, {deadline});
    absl::StatusOr<WeightFiles> files = WeightFiles::Open(plan_, folder_.path(), nullptr);
    EXPECT_TRUE(files.ok()) << files.status();
    for (const uint32_t rank : members) {
      weights_.push_back(std::move(RankWeights::Reserve(plan_, rank)).value());
      EXPECT_TRUE(weights_.back().Load(*files, 1, nullptr).ok());
    }
  }

  std::vector<RankRun> Run(Phase phase) {
    std::vector<RankRun> runs(backends.size());
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < runs.size(); ++rank) {
      threads.emplace_back([&, rank] {
        const RankProgram program = BindProgram(plan_, rank, 0, phase).value();
        SpyCommunicator group(group_[rank]);
        EXPECT_TRUE(group.Reserve(plan_.plan().memory[rank].collective).ok());
        const std::unique_ptr<RankExecutor> executor =
            RankExecutor::Reserve(program.arena_bytes(), backends[rank], group, {}).value();
        RankRun& run = runs[rank];
        run.output.resize(hidden_.size());
        run.status = executor->Run(program, *weights_[rank].Layer(0), {0, 100, kTokens, hidden_},
                                   {absl::MakeSpan(run.output), {}, {}}, &run.counters);
        run.algorithm = group.algorithm;
        run.addend = group.addend;
        run.lane = group.lane;
      });
    }
    for (std::thread& thread : threads) thread.join();
    return runs;
  }

 private:
  static constexpr uint32_t kTokens = 7;
  const SealedPlan plan_;

 public:
  std::vector<SpoiledBackend> backends;

 private:
  const std::vector<float> hidden_;
  const support::TempFolder folder_;
  support::InprocGroup group_;
  std::vector<RankWeights> weights_;
};

PlanNumbers ThreeRanks() {
  PlanNumbers n;
  n.ep = 3;
  n.residual = Residual::kAdd;
  return n;
}

TEST(RankExecutorTest, AllRanksHoldTheSameBits) {
  World world(ThreeRanks());
  for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
    const std::vector<RankRun> runs = world.Run(phase);
    for (const RankRun& run : runs) {
      EXPECT_TRUE(run.status.ok()) << run.status;
      EXPECT_EQ(run.output, runs[0].output);
    }
  }
}

TEST(RankExecutorTest, SumsAsItsProgramSays) {
  PlanNumbers n = ThreeRanks();
  n.hidden = 1024;
  n.prefill_chunk = n.prefill_tokens = 768;
  const auto expect = [](const PlanNumbers& numbers, ReduceAlgorithm decode, ReduceAlgorithm prefill) {
    World world(numbers);
    for (const RankRun& run : world.Run(Phase::kDecode)) EXPECT_EQ(run.algorithm, decode) << run.status;
    for (const RankRun& run : world.Run(Phase::kPrefill)) EXPECT_EQ(run.algorithm, prefill) << run.status;
  };
  expect(n, ReduceAlgorithm::kGatherThenSum, ReduceAlgorithm::kExchangeThenSum);
  n.reduction = Reduction::kFast;
  expect(n, ReduceAlgorithm::kTransport, ReduceAlgorithm::kTransport);
}

TEST(RankExecutorTest, AFailedStepEndsAllRanksAtTheCollective) {
  for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
    World world(ThreeRanks());
    world.backends[1].after_down = [](const DownArgs&) { return Refuse(Reason::kOutOfMemory, "no scratch"); };
    const std::vector<RankRun> runs = world.Run(phase);
    const int down = phase == Phase::kDecode ? 3 : 5;
    const std::string cause = absl::StrCat("layer 0, step ", down, " down: no scratch");
    EXPECT_EQ(runs[1].status.message(), cause);
    EXPECT_EQ(ReasonOf(runs[1].status), Reason::kOutOfMemory);
    EXPECT_EQ(runs[1].addend, std::vector<float>(7 * 16, 0.0f));
    EXPECT_EQ(runs[1].lane.errors, 1);
    EXPECT_EQ(runs[1].lane.computed_slots, 0);
    for (const size_t rank : {size_t{0}, size_t{2}}) {
      EXPECT_EQ(runs[rank].status.message(),
                absl::StrCat("layer 0, step ", down + 2, " collective: rank 1 failed first: ", cause));
      EXPECT_EQ(ReasonOf(runs[rank].status), Reason::kPeerFailed);
    }
  }
}

// All slots go to expert 0, which rank 0 owns: the others project nothing and give exact zeros.
TEST(RankExecutorTest, ARankWithoutSlotsGivesExactZeros) {
  PlanNumbers n = ThreeRanks();
  n.top_k = 1;
  World world(n);
  for (SpoiledBackend& backend : world.backends) {
    backend.after_route = [](const RouteArgs& args) {
      std::fill(args.experts.begin(), args.experts.end(), 0);
      return absl::OkStatus();
    };
  }
  for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
    const std::vector<RankRun> runs = world.Run(phase);
    for (size_t rank = 0; rank < 3; ++rank) {
      EXPECT_TRUE(runs[rank].status.ok()) << runs[rank].status;
      EXPECT_EQ(runs[rank].counters.gate_up_slots, rank == 0 ? 7u : 0u);
      EXPECT_EQ(runs[rank].counters.down_slots, rank == 0 ? 7u : 0u);
      EXPECT_EQ(runs[rank].lane.computed_slots, rank == 0 ? 7 : 0);
      const auto is_positive_zero = [](float value) { return std::bit_cast<uint32_t>(value) == 0; };
      EXPECT_EQ(std::all_of(runs[rank].addend.begin(), runs[rank].addend.end(), is_positive_zero), rank != 0);
    }
  }
}

TEST(RankExecutorTest, ASlotTooFewIsSeenByAllRanks) {
  World world(ThreeRanks());
  world.backends[2].after_down = [](const DownArgs& args) {
    --args.counters->down_slots;
    return absl::OkStatus();
  };
  for (const RankRun& run : world.Run(Phase::kDecode)) {
    EXPECT_EQ(run.status.message(), "layer 0, step 5 collective: the ranks computed 13 slots, expected 14");
    EXPECT_EQ(ReasonOf(run.status), Reason::kStatusLane);
  }
}

// One weight that differs by one bit, on the middle rank or on each rank in its own way.
TEST(RankExecutorTest, ADifferentRoutingIsSeenByAllRanks) {
  for (const bool everywhere : {false, true}) {
    World world(ThreeRanks());
    for (size_t rank = 0; rank < 3; ++rank) {
      if (!everywhere && rank != 1) continue;
      world.backends[rank].after_route = [rank](const RouteArgs& args) {
        for (size_t i = 0; i < rank; ++i) args.weights[3] = std::nextafter(args.weights[3], 2.0f);
        return absl::OkStatus();
      };
    }
    for (const RankRun& run : world.Run(Phase::kPrefill)) {
      EXPECT_EQ(run.status.message(), "layer 0, step 7 collective: the ranks routed differently");
      EXPECT_EQ(ReasonOf(run.status), Reason::kStatusLane);
    }
  }
}

TEST(RankExecutorTest, ALateRankIsNamedWithPlaceAndTrail) {
  World world(ThreeRanks(), std::chrono::milliseconds(50));
  world.backends[2].after_down = [](const DownArgs&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    return absl::OkStatus();
  };
  const std::vector<RankRun> runs = world.Run(Phase::kDecode);
  const size_t first = ReasonOf(runs[0].status) == Reason::kDeadline ? 0 : 1;
  const std::string waited = "waited 50 ms for rank 2";
  EXPECT_EQ(runs[first].status.message(),
            absl::StrCat("layer 0, step 5 collective: ", waited, "; this rank entered layer 0 step 5 collective"));
  EXPECT_EQ(ReasonOf(runs[first].status), Reason::kDeadline);
  for (const size_t rank : {1 - first, size_t{2}}) {
    EXPECT_EQ(runs[rank].status.message(),
              absl::StrCat("layer 0, step 5 collective: rank ", first, " failed first: ", waited));
    EXPECT_EQ(ReasonOf(runs[rank].status), Reason::kPeerFailed);
  }
}

TEST(RankExecutorTest, AFailureAfterTheCollectiveIsItsRanksOwn) {
  World world(ThreeRanks());
  world.backends[0].after_residual = [](const ResidualArgs&) { return Refuse(Reason::kBug, "no residual"); };
  const std::vector<RankRun> runs = world.Run(Phase::kDecode);
  EXPECT_EQ(runs[0].status.message(), "layer 0, step 6 residual: no residual");
  EXPECT_TRUE(runs[1].status.ok());
  EXPECT_TRUE(runs[2].status.ok());
}

// Rows of other ranks' slots are never written, so the arena's NaN is still there when the program is over;
// and the rows that a step reads were all written, or the output would be NaN.
TEST(RankExecutorTest, WorkMemoryStartsAsNaNAndRowsOfOtherRanksStayNaN) {
  World world(ThreeRanks());
  for (uint32_t rank = 0; rank < 3; ++rank) {
    world.backends[rank].after_down = [](const DownArgs& args) {
      for (uint64_t slot = 0; slot < args.shape.slots(); ++slot) {
        const bool owned = args.owned.LocalExpert(slot) >= 0;
        for (uint32_t h = 0; h < args.shape.hidden; ++h) {
          EXPECT_EQ(std::isnan(args.out[slot * args.shape.hidden + h]), !owned);
        }
        for (uint32_t c = 0; c < args.shape.columns; ++c) {
          EXPECT_EQ(std::isnan(args.activations[slot * args.shape.columns + c]), !owned);
        }
      }
      return absl::OkStatus();
    };
  }
  for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
    for (const RankRun& run : world.Run(phase)) {
      EXPECT_TRUE(run.status.ok()) << run.status;
      for (const float value : run.output) EXPECT_FALSE(std::isnan(value));
    }
  }
}

TEST(RankExecutorTest, SizesAreRefused) {
  PlanNumbers n;
  n.decode_tokens = 4;
  const SealedPlan plan = support::BuildSealedPlan(n);
  const RankProgram program = BindProgram(plan, 0, 0, Phase::kDecode).value();
  const support::InprocGroup group = support::MakeInprocGroup(1);
  ReferenceBackend backend;
  const std::unique_ptr<RankExecutor> executor =
      RankExecutor::Reserve(program.arena_bytes(), backend, group[0], {}).value();
  const LayerWeights weights;
  StepCounters counters;
  std::vector<float> rows(5 * n.hidden);
  absl::Status status = executor->Run(program, weights, {0, 0, 5, rows}, {}, &counters);
  EXPECT_EQ(status.message(), absl::StrCat("5 tokens, the decode program takes 4 in ", program.arena_bytes(), " of ",
                                           program.arena_bytes(), " bytes"));
  EXPECT_EQ(ReasonOf(status), Reason::kLimit);
  status = executor->Run(program, weights, {0, 0, 4, rows}, {}, &counters);
  EXPECT_EQ(status.message(), "the input has 80 elements, expected 64");
  EXPECT_EQ(ReasonOf(status), Reason::kUsage);
  status = executor->Run(program, weights, {0, 0, 1, absl::MakeSpan(rows).first(16)},
                         {absl::MakeSpan(rows).first(15), {}, {}}, &counters);
  EXPECT_EQ(status.message(), "the output has 15 elements, expected 16");
  const std::vector<int32_t> one = {1};
  const absl::Span<const float> row = absl::MakeSpan(rows).first(16);
  status = executor->Run(program, weights, {0, 0, 1, row, one}, {}, &counters);
  EXPECT_EQ(status.message(), "the row of token ids has 1 elements, expected 0");
  status = executor->Run(program, weights, {0, 0, 1, row, {}, {one, {}}}, {}, &counters);
  EXPECT_EQ(status.message(), "the given routing has 1 elements, expected 0");
  EXPECT_EQ(ReasonOf(status), Reason::kUsage);
}

TEST(StepFrameTest, APlaceIsNamedOnce) {
  const SealedPlan plan = support::BuildSealedPlan(PlanNumbers());
  const RankProgram program = BindProgram(plan, 0, 0, Phase::kDecode).value();
  const LayerWeights weights;
  StepCounters counters;
  const StepFrame frame(program, weights, StepInput(), {}, &counters);
  const absl::Status once = frame.Placed(0, Refuse(Reason::kNonFinite, "token 3"));
  EXPECT_EQ(once.message(), "layer 0, step 0 route: token 3");
  EXPECT_EQ(frame.Placed(0, once), once);  // heard of from a peer
  EXPECT_EQ(frame.Placed(1, once).message(), "layer 0, step 1 gate_up: layer 0, step 0 route: token 3");
}

}  // namespace
}  // namespace meshseal::runtime
