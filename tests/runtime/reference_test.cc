// Rules of single steps that a whole layer does not show.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/reference/dot.h"
#include "schema/reason.h"
#include "tests/runtime/single_steps.h"

namespace meshseal::runtime {
namespace {

Router SoftmaxRouter() {
  Router router;
  router.scoring = Scoring::kSoftmax;
  router.order = RouteOrder::kScoreThenTopK;
  router.renormalize = Renormalize::kNone;
  router.weight_applied = WeightPoint::kOutput;
  router.input = Basis::kF32;
  router.scale = 1;
  return router;
}

const Router kRouter = SoftmaxRouter();

struct Routed {
  absl::Status status;
  std::vector<int32_t> experts;
  std::vector<float> weights;
};

// Routes one token whose logits are `logits`.
Routed Route(const Router& router, const std::vector<float>& logits, uint32_t top_k) {
  const std::vector<float> x = {1};
  Routed routed;
  routed.experts.resize(top_k);
  routed.weights.resize(top_k);
  StepShape shape = Shape(1, top_k, 1);
  shape.first_token = 41;
  routed.status = SingleSteps().Route({shape,
                                       router,
                                       Matrix(logits, static_cast<uint32_t>(logits.size())),
                                       {},
                                       {},
                                       x,
                                       absl::MakeSpan(routed.experts),
                                       absl::MakeSpan(routed.weights)});
  return routed;
}

TEST(RouteTest, TiesGoToTheLowerIndex) {
  for (const RouteOrder order : {RouteOrder::kScoreThenTopK, RouteOrder::kTopKThenScore}) {
    Router router = kRouter;
    router.order = order;
    EXPECT_EQ(Route(router, {1, 2, 2, 1, 2}, 4).experts, (std::vector<int32_t>{1, 2, 4, 0}));
    EXPECT_EQ(Route(router, {0, -0.0f, 0}, 3).experts, (std::vector<int32_t>{0, 1, 2}));
  }
}

// Logits that differ by less than their scores' float32 can tell are a tie for score_then_topk only.
TEST(RouteTest, ScoresAreComparedAsFloat32) {
  const std::vector<float> logits = {-200, -150, 0};
  Router router = kRouter;
  EXPECT_EQ(Route(router, logits, 2).experts, (std::vector<int32_t>{2, 0}));  // both scores are 0
  router.order = RouteOrder::kTopKThenScore;
  EXPECT_EQ(Route(router, logits, 2).experts, (std::vector<int32_t>{2, 1}));
}

TEST(RouteTest, ScoresRenormalizationAndScale) {
  const std::vector<float> logits = {std::log(1.0f), std::log(2.0f), std::log(5.0f)};
  Router router = kRouter;
  EXPECT_NEAR(Route(router, logits, 2).weights[0], 5.0 / 8, 1e-7);
  EXPECT_NEAR(Route(router, logits, 2).weights[1], 2.0 / 8, 1e-7);
  router.renormalize = Renormalize::kSum;
  router.scale = 3;
  EXPECT_NEAR(Route(router, logits, 2).weights[0], 3 * 5.0 / 7, 1e-6);
  router.order = RouteOrder::kTopKThenScore;
  router.renormalize = Renormalize::kNone;
  EXPECT_NEAR(Route(router, logits, 2).weights[1], 3 * 2.0 / 7, 1e-6);
}

TEST(RouteTest, LargeLogitsDoNotOverflow) {
  EXPECT_EQ(Route(kRouter, {3e38f, 3e38f, -3e38f}, 3).weights, (std::vector<float>{0.5f, 0.5f, 0}));
}

TEST(RouteTest, Bf16LogitsTieWhereFloat32OnesDoNot) {
  Router router = kRouter;
  EXPECT_EQ(Route(router, {1, 1.001f}, 1).experts, (std::vector<int32_t>{1}));
  router.input = Basis::kBf16;
  EXPECT_EQ(Route(router, {1, 1.001f}, 1).experts, (std::vector<int32_t>{0}));
}

TEST(RouteTest, ANonFiniteScoreNamesTokenAndExpert) {
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    const absl::Status status = Route(kRouter, {1, bad}, 1).status;
    EXPECT_EQ(status.message(), "token 41: the router score of expert 1 is not finite");
    EXPECT_EQ(ReasonOf(status), Reason::kNonFinite);
  }
  // The largest float32 is finite, as bf16 it is not.
  Router router = kRouter;
  EXPECT_TRUE(Route(router, {3.4e38f}, 1).status.ok());
  router.input = Basis::kBf16;
  EXPECT_FALSE(Route(router, {3.4e38f}, 1).status.ok());
}

// 3 tokens of 2 slots over experts 0..3; this rank owns 2 (local 0) and 0 (local 1).
class ScatterTest : public testing::Test {
 protected:
  absl::Status Scatter(size_t capacity) {
    rows.assign(capacity * 2, -1);
    slot_of_row.assign(capacity, 77);
    row_of_slot.assign(6, 77);
    first_row.assign(3, 77);
    return SingleSteps().Scatter({Shape(3, 2, 2),
                                  {{experts, weights}, local, 0, 2},
                                  false,
                                  2,
                                  2,
                                  x,
                                  absl::MakeSpan(rows),
                                  absl::MakeSpan(slot_of_row),
                                  absl::MakeSpan(row_of_slot),
                                  absl::MakeSpan(first_row)});
  }

  const std::vector<int32_t> experts = {0, 2, 1, 3, 2, 0};
  const std::vector<float> weights = std::vector<float>(6, 1);
  const std::vector<ExpertPlace> local = HeldAs({1, -1, 0, -1});
  const std::vector<float> x = {10, 11, 20, 21, 30, 31};
  std::vector<float> rows;
  std::vector<int32_t> slot_of_row, row_of_slot, first_row;
};

TEST_F(ScatterTest, GroupsByLocalExpertInSlotOrder) {
  ASSERT_TRUE(Scatter(6).ok());
  EXPECT_EQ(first_row, (std::vector<int32_t>{0, 2, 4}));
  EXPECT_EQ(slot_of_row, (std::vector<int32_t>{1, 4, 0, 5, -1, -1}));
  EXPECT_EQ(row_of_slot, (std::vector<int32_t>{2, 0, -1, -1, 1, 3}));
  EXPECT_EQ(rows, (std::vector<float>{10, 11, 30, 31, 10, 11, 30, 31, -1, -1, -1, -1}));
}

TEST_F(ScatterTest, OneRowTooFewIsRefusedBeforeAnythingIsWritten) {
  const absl::Status status = Scatter(3);
  EXPECT_EQ(status.message(), "4 rows are needed, the plan proves 3");
  EXPECT_EQ(ReasonOf(status), Reason::kBug);
  EXPECT_EQ(rows, std::vector<float>(6, -1));
  EXPECT_EQ(slot_of_row, std::vector<int32_t>(3, 77));
}

TEST(ScatterPaddingTest, EachExpertStartsAtATileAndPaddingIsNotWritten) {
  const std::vector<int32_t> experts = {1, 0, 1, 1, 1};
  const std::vector<float> weights(5, 1);
  const std::vector<ExpertPlace> local = HeldAs({0, 1, 2});
  const std::vector<float> x = {1, 2, 3, 4, 5};
  std::vector<float> rows(16, -1);
  std::vector<int32_t> slot_of_row(16), row_of_slot(5), first_row(4);
  ASSERT_TRUE(SingleSteps()
                  .Scatter({Shape(5, 1, 1),
                            {{experts, weights}, local},
                            false,
                            3,
                            3,
                            x,
                            absl::MakeSpan(rows),
                            absl::MakeSpan(slot_of_row),
                            absl::MakeSpan(row_of_slot),
                            absl::MakeSpan(first_row)})
                  .ok());
  EXPECT_EQ(first_row, (std::vector<int32_t>{0, 3, 9, 9}));  // the third expert has no row
  EXPECT_EQ(rows, (std::vector<float>{2, -1, -1, 1, 3, 4, 5, -1, -1, -1, -1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(slot_of_row[1], -1);
  EXPECT_EQ(slot_of_row[8], -1);

  // GateUpGrouped leaves the padding alone as well.
  const std::vector<float> one = {1};
  ExpertWeights expert;
  expert.gate = expert.up = expert.down = Matrix(one, 1);
  const std::vector<ExpertWeights> owned(3, expert);
  std::vector<float> out(32, -1);
  StepCounters counters;
  ASSERT_TRUE(SingleSteps()
                  .GateUpGrouped({Shape(5, 1, 1),
                                  {slot_of_row, row_of_slot, first_row},
                                  Basis::kF32,
                                  owned,
                                  rows,
                                  absl::MakeSpan(out),
                                  &counters})
                  .ok());
  EXPECT_EQ(counters.gate_up_slots, 5u);
  EXPECT_EQ(out[0], 2);
  EXPECT_EQ(out[2], -1);
  EXPECT_EQ(out[16], -1);
}

TEST(CombineTest, WritesExactZerosForATokenWithoutOwnedSlots) {
  const std::vector<int32_t> experts = {0, 1, 0, 0};
  const std::vector<float> weights = {0.5f, 2, NAN, NAN};
  const std::vector<ExpertPlace> local = HeldAs({-1, 0});
  const std::vector<float> slots = {NAN, 3, NAN, NAN};
  std::vector<float> out(2, NAN);
  ASSERT_TRUE(SingleSteps()
                  .Combine({Shape(2, 2, 1), {{experts, weights}, local, 0, 2}, true, slots, absl::MakeSpan(out)})
                  .ok());
  EXPECT_EQ(out[0], 6);
  EXPECT_EQ(std::bit_cast<uint32_t>(out[1]), 0u);
}

TEST(CombineTest, FusesMultiplyAndAddInSlotOrder) {
  const std::vector<int32_t> experts = {0, 0};
  const std::vector<ExpertPlace> local = HeldAs({0});
  const float w = 1 + 0x1p-12f;
  const std::vector<float> weights = {-1, w};
  const std::vector<float> slots = {1 + 0x1p-11f, w};
  std::vector<float> out(1);
  ASSERT_TRUE(SingleSteps()
                  .Combine({Shape(1, 2, 1), {{experts, weights}, local, 0, 2}, true, slots, absl::MakeSpan(out)})
                  .ok());
  EXPECT_EQ(out[0], 0x1p-24f);  // w*w rounded first would give 0
}

TEST(ActivationTest, SwiGluOfLargeGates) {
  const std::vector<int32_t> experts = {0};
  const std::vector<float> weights = {1};
  const std::vector<ExpertPlace> local = HeldAs({0});
  const std::vector<float> gate_up = {1e30f, -1e30f, 0, 2, 3, 5};
  std::vector<float> out(3);
  ASSERT_TRUE(SingleSteps()
                  .Activation({Shape(1, 1, 1, 3),
                               {{experts, weights}, local},
                               false,
                               Activation{ActivationKind::kSwiGlu, 0, 0},
                               gate_up,
                               absl::MakeSpan(out)})
                  .ok());
  EXPECT_EQ(out, (std::vector<float>{2e30f, 0, 0}));
}

// The values are those of torch's gelu(approximate="tanh"); the form with erf gives 1.682689 and -0.317311 for the
// first two.
TEST(ActivationTest, GeGluIsTheTanhFormAndRelu2HasNoGate) {
  const std::vector<int32_t> experts = {0};
  const std::vector<float> weights = {1};
  const std::vector<ExpertPlace> local = HeldAs({0});
  const std::vector<float> gate_up = {1, -1, 0.5f, 1e10f, 2, 2, 4, 3};
  std::vector<float> out(4);
  ASSERT_TRUE(SingleSteps()
                  .Activation({Shape(1, 1, 1, 4),
                               {{experts, weights}, local},
                               false,
                               Activation{ActivationKind::kGeGlu, 0, 0},
                               gate_up,
                               absl::MakeSpan(out)})
                  .ok());
  EXPECT_NEAR(out[0], 1.682384, 1e-6);
  EXPECT_NEAR(out[1], -0.317616, 1e-6);
  EXPECT_NEAR(out[2], 1.382856, 1e-6);
  EXPECT_EQ(out[3], 3e10f);

  StepShape shape = Shape(1, 1, 1, 4);
  shape.gated = false;
  const std::vector<float> up = {1.5f, -2, NAN, 0};
  ASSERT_TRUE(SingleSteps()
                  .Activation({shape,
                               {{experts, weights}, local},
                               false,
                               Activation{ActivationKind::kRelu2, 0, 0},
                               up,
                               absl::MakeSpan(out)})
                  .ok());
  EXPECT_EQ(out[0], 2.25f);
  EXPECT_EQ(out[1], 0);
  EXPECT_TRUE(std::isnan(out[2]));
  EXPECT_EQ(out[3], 0);
}

TEST(ActivationTest, LeavesSlotsOfOtherRanksAlone) {
  const std::vector<int32_t> experts = {0, 1};
  const std::vector<float> weights = {1, 1};
  const std::vector<ExpertPlace> local = HeldAs({-1, 0});
  const std::vector<float> gate_up = {1, 1, 1, 1};
  std::vector<float> out = {7, 7};
  ASSERT_TRUE(SingleSteps()
                  .Activation({Shape(1, 2, 1),
                               {{experts, weights}, local},
                               false,
                               Activation{ActivationKind::kSwiGlu, 0, 0},
                               gate_up,
                               absl::MakeSpan(out)})
                  .ok());
  EXPECT_EQ(out[0], 7);
  EXPECT_NEAR(out[1], 1 / (1 + std::exp(-1.0)), 1e-7);
}

// The values are those of the families' public code (gpt-oss, DeepSeek-V4).
TEST(ActivationTest, ClampedRules) {
  const std::vector<int32_t> experts = {0};
  const std::vector<float> weights = {1};
  const std::vector<ExpertPlace> local = HeldAs({0});
  const auto activate = [&](const Activation& rule, float gate, float up) {
    const std::vector<float> gate_up = {gate, up};
    float out = NAN;
    const absl::Status status = SingleSteps().Activation(
        {Shape(1, 1, 1), {{experts, weights}, local}, false, rule, gate_up, absl::MakeSpan(&out, 1)});
    EXPECT_TRUE(status.ok()) << status;
    return out;
  };
  const Activation oai = {ActivationKind::kSwiGluOai, 1.702f, 7};
  EXPECT_NEAR(activate(oai, 1, 2), 2.537387, 1e-6);
  EXPECT_NEAR(activate(oai, 9, -8.5), -41.999719, 1e-5);
  EXPECT_NEAR(activate(oai, -9, 0.5), -0.000003, 1e-6);
  const Activation preclamp = {ActivationKind::kSwiGluPreclamp, 0, 10};
  EXPECT_NEAR(activate(preclamp, 1, 2), 1.462117, 1e-6);
  EXPECT_NEAR(activate(preclamp, 12, -11), -99.99546, 1e-5);
  EXPECT_NEAR(activate({ActivationKind::kSwiGlu, 0, 0}, 12, -11), -131.999189, 1e-5);
}

TEST(RouteTest, BiasesEnterWhereTheyShould) {
  const std::vector<float> x = {1};
  const std::vector<float> logits = {1, 2, 3, 4};
  const std::vector<float> bias = {5, 0, 0, 0};
  std::vector<int32_t> experts(2);
  std::vector<float> weights(2);
  const auto route = [&](bool logit_bias, bool selection_bias) {
    return SingleSteps().Route(
        {Shape(1, 2, 1), kRouter, Matrix(logits, 4), logit_bias ? Matrix(bias, 1) : WeightMatrix{},
         selection_bias ? Matrix(bias, 1) : WeightMatrix{}, x, absl::MakeSpan(experts), absl::MakeSpan(weights)});
  };
  ASSERT_TRUE(route(true, false).ok());  // logits 6, 2, 3, 4
  EXPECT_EQ(experts, (std::vector<int32_t>{0, 3}));
  EXPECT_NEAR(weights[0], std::exp(6.0) / (std::exp(6.0) + std::exp(2.0) + std::exp(3.0) + std::exp(4.0)), 1e-6);
  ASSERT_TRUE(route(false, true).ok());  // compared with 5 more, weighed without
  EXPECT_EQ(experts, (std::vector<int32_t>{0, 3}));
  EXPECT_NEAR(weights[0], std::exp(1.0) / (std::exp(1.0) + std::exp(2.0) + std::exp(3.0) + std::exp(4.0)), 1e-6);
}

// One expert without a gate of two columns, one with one; biases are added to the products, down's on tp 0 alone.
TEST(ProductsTest, BiasesAndExpertsWithoutAGate) {
  const std::vector<int32_t> experts = {0};
  const std::vector<float> weights = {3};
  const std::vector<ExpertPlace> local = HeldAs({0});
  const std::vector<float> x = {2, 1};
  const std::vector<float> gate = {1, 0, 0, 1};
  const std::vector<float> up = {3, 0, 0, 5};
  const std::vector<float> gate_bias = {10, 20};
  const std::vector<float> up_bias = {30, 40};
  const std::vector<float> down_bias = {0.5f, 0.25f};
  ExpertWeights expert;
  expert.gate = Matrix(gate, 2);
  expert.up = Matrix(up, 2);
  expert.down = Matrix(gate, 2);
  expert.gate_bias = Matrix(gate_bias, 1);
  expert.up_bias = Matrix(up_bias, 1);
  expert.down_bias = Matrix(down_bias, 1);
  StepCounters counters;
  const auto gate_up = [&](bool gated, bool weighs) {
    StepShape shape = Shape(1, 1, 2, 2);
    shape.gated = gated;
    ExpertWeights used = expert;
    if (!gated) used.gate = used.gate_bias = WeightMatrix{};
    std::vector<float> out(shape.products(), -1);
    const absl::Status status = SingleSteps().GateUp({shape,
                                                      {{experts, weights}, local},
                                                      weighs,
                                                      Basis::kF32,
                                                      absl::MakeConstSpan(&used, 1),
                                                      x,
                                                      absl::MakeSpan(out),
                                                      &counters});
    EXPECT_TRUE(status.ok()) << status;
    return out;
  };
  EXPECT_EQ(gate_up(true, false), (std::vector<float>{12, 21, 36, 45}));
  EXPECT_EQ(gate_up(false, false), (std::vector<float>{36, 45}));
  EXPECT_EQ(gate_up(true, true), (std::vector<float>{16, 23, 48, 55}));  // x is 6, 3

  const auto down = [&](bool adds_bias) {
    std::vector<float> out(2, -1);
    const absl::Status status = SingleSteps().Down({Shape(1, 1, 2, 2),
                                                    {{experts, weights}, local},
                                                    adds_bias,
                                                    Basis::kF32,
                                                    absl::MakeConstSpan(&expert, 1),
                                                    x,
                                                    absl::MakeSpan(out),
                                                    &counters});
    EXPECT_TRUE(status.ok()) << status;
    return out;
  };
  EXPECT_EQ(down(true), (std::vector<float>{2.5f, 1.25f}));
  EXPECT_EQ(down(false), (std::vector<float>{2, 1}));
}

// At each place of a program where a weight may enter: with it, and without it when another place has it.
TEST(WeightPointTest, OneStepMultipliesTheWeightIn) {
  const std::vector<int32_t> experts = {0};
  const std::vector<float> weights = {3};
  const std::vector<ExpertPlace> local = HeldAs({0});
  const OwnedSlots owned = {{experts, weights}, local};
  const std::vector<float> x = {2, 5};
  for (const bool weighs : {false, true}) {
    const float times = weighs ? 3 : 1;
    std::vector<float> rows(2);
    std::vector<int32_t> slot_of_row(1), row_of_slot(1), first_row(2);
    ASSERT_TRUE(SingleSteps()
                    .Scatter({Shape(1, 1, 2), owned, weighs, 1, 1, x, absl::MakeSpan(rows), absl::MakeSpan(slot_of_row),
                              absl::MakeSpan(row_of_slot), absl::MakeSpan(first_row)})
                    .ok());
    EXPECT_EQ(rows, (std::vector<float>{2 * times, 5 * times}));
    float out = 0;
    const std::vector<float> up = {2};
    StepShape shape = Shape(1, 1, 1);
    shape.gated = false;
    ASSERT_TRUE(SingleSteps()
                    .Activation({shape, owned, weighs, {ActivationKind::kRelu2, 0, 0}, up, absl::MakeSpan(&out, 1)})
                    .ok());
    EXPECT_EQ(out, 4 * times);
    ASSERT_TRUE(SingleSteps().Combine({Shape(1, 1, 1), owned, weighs, up, absl::MakeSpan(&out, 1)}).ok());
    EXPECT_EQ(out, 2 * times);
  }
}

TEST(DotTest, RoundsOnceAndInIndexOrder) {
  EXPECT_EQ(Dot(std::vector<float>{1e8f, 1, -1e8f}, std::vector<float>{1, 1, 1}), 1.0f);
  EXPECT_EQ(Dot(std::vector<float>{1e20f, 1, -1e20f}, std::vector<float>{1, 1, 1}), 0.0f);
}

TEST(MakeBackendTest, NamesWhatThereIs) {
  EXPECT_EQ((*MakeBackend("reference"))->name(), "reference");
  const absl::Status status = MakeBackend("cuda").status();
  EXPECT_EQ(status.message(), "backend 'cuda' is not built, this version has 'reference'");
  EXPECT_EQ(ReasonOf(status), Reason::kNotBuilt);
}

}  // namespace
}  // namespace meshseal::runtime
