#include "runtime/program/rank_program.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/memory/arena.h"
#include "runtime/program/rank_facts.h"
#include "schema/reason.h"
#include "tests/support/plan_builder.h"
#include "tests/support/sanitized.h"

namespace meshseal::runtime {
namespace {

using support::PlanNumbers;

TEST(RankFactsTest, FollowThePlansRules) {
  PlanNumbers n;
  n.layers = 5;
  n.moe_layers = {{1, 2}, {3, 5}};
  n.pp = 2;
  n.ep = 3;
  n.tp = 5;
  const Plan plan = support::BuildPlan(n);
  const LayerClass& c = plan.layer_classes.front();
  EXPECT_EQ(LocalExperts(c, 0), (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_EQ(LocalExperts(c, 1), (std::vector<uint32_t>{3, 4, 5}));
  EXPECT_EQ(LocalExperts(c, 2), (std::vector<uint32_t>{6, 7}));
  std::vector<uint32_t> begins;
  for (uint32_t tp = 0; tp < 5; ++tp) begins.push_back(ColumnsOf(c, tp).begin);
  EXPECT_EQ(begins, (std::vector<uint32_t>{0, 3, 6, 8, 10}));
  EXPECT_EQ(ColumnsOf(c, 4).end, 12u);
  EXPECT_EQ(ColumnsOf(c, 1).size(), 3u);
  EXPECT_EQ(LayersOfStage(plan, 0), (LayerRange{0, 3}));
  EXPECT_EQ(LayersOfStage(plan, 1), (LayerRange{3, 5}));
  const std::vector<bool> has_experts = {false, true, false, true, true, false};
  for (uint32_t layer = 0; layer < has_experts.size(); ++layer) {
    EXPECT_EQ(ClassOfLayer(plan, layer).has_value(), has_experts[layer]) << layer;
  }
}

// Owners need not be contiguous; local numbers follow the plan's table.
TEST(RankFactsTest, InterleavedOwners) {
  PlanNumbers n;
  n.ep = 2;
  Plan plan = support::BuildPlan(n);
  for (uint32_t expert = 0; expert < n.experts; ++expert) {
    plan.layer_classes[0].expert_shards[expert] = {expert % 2, expert / 2};
  }
  EXPECT_EQ(LocalExperts(plan.layer_classes[0], 1), (std::vector<uint32_t>{1, 3, 5, 7}));
}

TEST(BindProgramTest, ResolvesTheSegmentsOfAnExactSum) {
  PlanNumbers n;
  n.tp = n.ep = 2;
  n.intermediate = 10;
  n.shared_width = 9;
  n.reduction = Reduction::kExact;
  n.segments = 4;         // end at 3, 6, 8, 10
  n.shared_segments = 8;  // end at 2, 3, ... 9
  const SealedPlan plan = support::BuildSealedPlan(n);
  const absl::StatusOr<RankProgram> bound = BindProgram(plan, 2, 0, Phase::kDecode);  // tp 1, ep 0
  ASSERT_TRUE(bound.ok()) << bound.status();
  ASSERT_TRUE(bound->fixed_point().has_value());
  EXPECT_EQ(bound->fixed_point()->bound, 1024);
  EXPECT_EQ(bound->fixed_point()->fraction_bits, 48u);  // 62 - 10, and 4 of 2 x 4 + 8 addends
  EXPECT_EQ(bound->segment_ends(), (std::vector<uint32_t>{2, 4}));
  EXPECT_EQ(bound->shared_segment_ends(), (std::vector<uint32_t>{1, 2}));
  const absl::StatusOr<RankProgram> first = BindProgram(plan, 0, 0, Phase::kDecode);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->segment_ends(), (std::vector<uint32_t>{3, 6}));
  EXPECT_EQ(first->shared_segment_ends(), (std::vector<uint32_t>{2, 3}));

  const SealedPlan ordered = support::BuildSealedPlan(PlanNumbers());
  EXPECT_FALSE(BindProgram(ordered, 0, 0, Phase::kDecode)->fixed_point().has_value());
}

TEST(BindProgramTest, ResolvesPlacesAndOwners) {
  PlanNumbers n;
  n.tp = 2;
  n.ep = 3;
  n.residual = Residual::kAdd;
  const SealedPlan plan = support::BuildSealedPlan(n);
  const LayerClass& c = plan.plan().layer_classes.front();
  const absl::StatusOr<RankProgram> bound = BindProgram(plan, 5, 0, Phase::kPrefill);  // tp 1, ep 2
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_EQ(bound->at(), (Coordinate{0, 0, 1, 2}));
  EXPECT_EQ(bound->local_experts(), 2u);
  EXPECT_EQ(bound->columns().begin, 6u);
  EXPECT_EQ(bound->columns().end, 12u);
  EXPECT_EQ(bound->tensor_degree(), 2u);
  std::vector<int32_t> locals;
  for (const ExpertPlace& place : bound->expert_places()) locals.push_back(place.local);
  EXPECT_EQ(locals, (std::vector<int32_t>{-1, -1, -1, -1, -1, -1, 0, 1}));
  EXPECT_EQ(bound->route().kind, StepKind::kRoute);
  EXPECT_EQ(bound->shared_columns(), 0u);
  const WorkLayout& layout = c.programs[1].layouts.front();  // fewer experts come first
  EXPECT_EQ(layout.experts, 2u);
  EXPECT_EQ(bound->grouped_rows(), layout.grouped_rows);
  EXPECT_EQ(bound->arena_bytes(), layout.arena_bytes);
  ASSERT_EQ(bound->steps().size(), c.programs[1].steps.size());
  for (size_t i = 0; i < bound->steps().size(); ++i) {
    const Step& step = c.programs[1].steps[i];
    EXPECT_EQ(bound->steps()[i].kind, step.kind);
    for (size_t j = 0; j < step.inputs.size(); ++j) {
      EXPECT_EQ(bound->steps()[i].inputs[j], layout.buffers[step.inputs[j]]);
    }
    for (size_t j = 0; j < step.outputs.size(); ++j) {
      EXPECT_EQ(bound->steps()[i].outputs[j], layout.buffers[step.outputs[j]]);
    }
  }
  EXPECT_EQ(bound->layer_input(), layout.buffers.front());
  EXPECT_EQ(bound->layer_output(), layout.buffers.back());
}

// Expert 0 has copies on ep 1 and 2, expert 1 on ep 1: local numbers of copies follow those of the owned ones.
TEST(RankFactsTest, CopiesFollowOwnedExperts) {
  PlanNumbers n;
  n.ep = 3;
  Plan plan = support::BuildPlan(n);
  LayerClass& c = plan.layer_classes[0];
  c.expert_copies = {{0, 1, 3}, {1, 1, 4}, {0, 2, 2}};
  EXPECT_EQ(LocalExperts(c, 0), (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_EQ(LocalExperts(c, 1), (std::vector<uint32_t>{3, 4, 5, 0, 1}));
  EXPECT_EQ(LocalExperts(c, 2), (std::vector<uint32_t>{6, 7, 0}));
  const std::vector<ExpertPlace> second = ExpertPlaces(c, 1);
  EXPECT_EQ(second[0], (ExpertPlace{3, 1, 3}));
  EXPECT_EQ(second[1], (ExpertPlace{4, 1, 2}));
  EXPECT_EQ(second[2], (ExpertPlace{-1, 0, 1}));
  EXPECT_EQ(second[3], (ExpertPlace{0, 0, 1}));
  EXPECT_EQ(ExpertPlaces(c, 0)[0], (ExpertPlace{0, 0, 3}));
  EXPECT_EQ(ExpertPlaces(c, 2)[0], (ExpertPlace{2, 2, 3}));
  EXPECT_EQ(ExpertPlaces(c, 2)[1], (ExpertPlace{-1, 0, 2}));
}

TEST(RankFactsTest, SharedColumnsAreSplitOverTheGroupOrTheOwners) {
  PlanNumbers n;
  n.tp = 2;
  n.ep = 2;
  n.shared_width = 10;
  const auto columns = [&](SharedPlacement placement) {
    n.shared_placement = placement;
    const SealedPlan plan = support::BuildSealedPlan(n);
    std::vector<uint32_t> ends;
    for (uint32_t rank = 0; rank < 4; ++rank) {
      const ColumnRange range =
          SharedColumnsOf(plan.plan().layer_classes[0], plan.plan().degrees, CoordinateOf(plan.plan().degrees, rank));
      ends.push_back(range.begin);
      ends.push_back(range.end);
      EXPECT_EQ(BindProgram(plan, rank, 0, Phase::kDecode)->shared_columns(), range.size());
    }
    return ends;
  };
  EXPECT_EQ(columns(SharedPlacement::kSplit), (std::vector<uint32_t>{0, 3, 3, 6, 6, 8, 8, 10}));
  EXPECT_EQ(columns(SharedPlacement::kOwner), (std::vector<uint32_t>{0, 5, 0, 0, 5, 10, 0, 0}));
}

TEST(RankFactsTest, TheRoutingStep) {
  PlanNumbers n;
  EXPECT_EQ(RouteOf(support::BuildPlan(n).layer_classes[0]), StepKind::kRoute);
  n.router.vocabulary = 5;
  EXPECT_EQ(RouteOf(support::BuildPlan(n).layer_classes[0]), StepKind::kRouteByTable);
  n.router.vocabulary = 0;
  n.router.scoring = Scoring::kPrecomputed;
  EXPECT_EQ(RouteOf(support::BuildPlan(n).layer_classes[0]), StepKind::kRouteGiven);
  n = PlanNumbers();
  n.ep = 2;
  n.dense_tp = 1;  // gathers first
  const SealedPlan plan = support::BuildSealedPlan(n);
  EXPECT_EQ(RouteOf(plan.plan().layer_classes[0]), StepKind::kRoute);
  EXPECT_EQ(BindProgram(plan, 0, 0, Phase::kDecode)->route().kind, StepKind::kRoute);
}

TEST(BindProgramTest, RefusesWhatIsNotInThePlan) {
  const SealedPlan plan = support::BuildSealedPlan({});
  absl::Status status = BindProgram(plan, 1, 0, Phase::kDecode).status();
  EXPECT_EQ(status.message(), "rank 1 of a plan with a world of 1");
  EXPECT_EQ(ReasonOf(status), Reason::kWorldSize);
  status = BindProgram(plan, 0, 1, Phase::kDecode).status();
  EXPECT_EQ(status.message(), "layer class 1 of a plan with 1");
  EXPECT_EQ(ReasonOf(status), Reason::kBug);
  status = BindProgram(plan, 0, 0, Phase::kInvalid).status();
  EXPECT_EQ(status.message(), "layer class 0 has no invalid program");
  EXPECT_EQ(ReasonOf(status), Reason::kBug);
}

TEST(ArenaTest, IsAlignedAndMayBeEmpty) {
  const absl::StatusOr<Arena> arena = Arena::Reserve(100, "a test");
  ASSERT_TRUE(arena.ok());
  EXPECT_EQ(arena->bytes().size(), 100u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena->bytes().data()) % 64, 0u);
  EXPECT_TRUE(Arena::Reserve(0, "a test")->bytes().empty());
}

// The sanitizers end the program instead.
#if !MESHSEAL_TEST_SANITIZED
TEST(ArenaTest, RefusesWhatCannotBeHad) {
  const absl::Status status = Arena::Reserve(uint64_t{1} << 62, "a test").status();
  EXPECT_EQ(status.message(), "4611686018427387904 bytes for a test cannot be had");
  EXPECT_EQ(ReasonOf(status), Reason::kOutOfMemory);
}
#endif

}  // namespace
}  // namespace meshseal::runtime
