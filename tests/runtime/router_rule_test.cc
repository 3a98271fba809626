// Router rules of every family, on logits. The numbers are of plain float64 arithmetic after the families' public code.
#include "runtime/reference/router_rule.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace meshseal::runtime {
namespace {

Router RuleOf(Scoring scoring, RouteOrder order, Renormalize renormalize, float scale = 1, float guard = 0) {
  Router router;
  router.scoring = scoring;
  router.order = order;
  router.renormalize = renormalize;
  router.guard = guard;
  router.weight_applied = WeightPoint::kOutput;
  router.input = Basis::kF32;
  router.scale = scale;
  return router;
}

Router WithGroups(Router router, uint32_t count, uint32_t keep, GroupScore score) {
  router.groups = {count, keep, score};
  return router;
}

constexpr RouteOrder kScoreFirst = RouteOrder::kScoreThenTopK;
constexpr RouteOrder kTopKFirst = RouteOrder::kTopKThenScore;

struct Example {
  std::string name;
  Router router;
  std::vector<float> logits;
  std::vector<float> selection_bias;
  std::vector<int32_t> experts;
  std::vector<double> weights;
};

std::vector<Example> Examples() {
  const std::vector<float> a = {1.0f, -0.5f, 2.0f, 0.25f, 1.5f, -1.0f, 0.75f, 2.5f};
  // a with the bias [0, 0.5, -0.25, 1, -0.5, 0.125, 0.75, -1.5]: three share the last place.
  const std::vector<float> b = {1.0f, 0.0f, 1.75f, 1.25f, 1.0f, -0.875f, 1.5f, 1.0f};
  const std::vector<float> c = {0.2f, 1.4f, -0.6f, 0.9f, 1.1f, 1.0f, -2.0f, 2.2f};
  const std::vector<float> c_bias = {0.30f, -0.20f, 0.05f, 0.10f, 0.00f, 0.15f, 0.40f, -0.90f};
  const std::vector<float> d = {-3.0f, 0.0f, 1.0f, 4.0f, 2.0f, -1.0f, 0.5f, 3.0f};
  const std::vector<float> d_bias = {1.5f, 0, 0, -0.6f, 0, 0.2f, 0, 0};
  const std::vector<float> grouped = {2.0f, 1.0f, 1.9f, 0.0f, 1.8f, 1.7f, -1.0f, 0.5f};
  const Router softmax = RuleOf(Scoring::kSoftmax, kScoreFirst, Renormalize::kSum);
  const Router plain = RuleOf(Scoring::kSoftmax, kScoreFirst, Renormalize::kNone);
  const Router chosen = RuleOf(Scoring::kSoftmax, kTopKFirst, Renormalize::kNone);
  const Router sigmoid = RuleOf(Scoring::kSigmoid, kScoreFirst, Renormalize::kSum);
  const Router v3 = WithGroups(RuleOf(Scoring::kSigmoid, kScoreFirst, Renormalize::kSumPlus, 2.5f, 1e-20f), 4, 2,
                               GroupScore::kTop2Sum);
  const Router v4 = RuleOf(Scoring::kSqrtSoftplus, kScoreFirst, Renormalize::kSum, 1.5f);
  Router sparsemixer = RuleOf(Scoring::kSparsemixer, kScoreFirst, Renormalize::kNone);
  sparsemixer.epsilon = 0.01f;
  return {
      {"Mixtral", softmax, a, {}, {7, 2}, {0.622459, 0.377541}},
      {"Qwen3", softmax, a, {}, {7, 2, 4, 0}, {0.455054, 0.276004, 0.167405, 0.101536}},
      {"Qwen2", plain, a, {}, {7, 2, 4, 0}, {0.391130, 0.237232, 0.143889, 0.087273}},
      {"Granite", chosen, a, {}, {7, 2, 4, 0}, {0.455054, 0.276004, 0.167405, 0.101536}},
      {"gpt-oss", chosen, b, {}, {2, 6, 3, 0}, {0.349932, 0.272527, 0.212244, 0.165296}},
      {"DeepSeek-V2 without its groups", plain, grouped, {}, {0, 2, 4}, {0.235820, 0.213379, 0.193073}},
      {"DeepSeek-V2",
       WithGroups(RuleOf(Scoring::kSoftmax, kScoreFirst, Renormalize::kNone, 16), 4, 2, GroupScore::kMax),
       grouped,
       {},
       {0, 2, 1},
       {3.773124, 3.414063, 1.388055}},
      {"DeepSeek-V3", v3, c, c_bias, {5, 0, 4}, {0.899808, 0.676751, 0.923441}},
      {"GLM-4.5",
       RuleOf(Scoring::kSigmoid, kScoreFirst, Renormalize::kSum, 2.5f),
       c,
       c_bias,
       {5, 0, 3},
       {0.917566, 0.690107, 0.892327}},
      {"Kimi-K2",
       RuleOf(Scoring::kSigmoid, kScoreFirst, Renormalize::kSum, 2.827f),
       c,
       c_bias,
       {5, 0, 3},
       {1.037584, 0.780373, 1.009043}},
      {"MiniMax-M2", sigmoid, c, c_bias, {5, 0, 3}, {0.367026, 0.276043, 0.356931}},
      {"MiniMax-M2 without its bias", sigmoid, c, {}, {7, 1, 4}, {0.367045, 0.327062, 0.305892}},
      {"DeepSeek-V4", v4, d, d_bias, {7, 0, 4}, {0.764715, 0.096541, 0.638744}},
      {"Llama 4",
       RuleOf(Scoring::kSigmoid, kTopKFirst, Renormalize::kNone),
       {-1.25f, 0.75f, 0.5f, -2.0f},
       {},
       {1},
       {0.679179}},
      {"Phi-3.5", sparsemixer, {4.0f, 3.97f, 3.95f, 1.0f}, {}, {0, 1}, {0.342269, 0.505000}},
      {"Phi-3.5, one near", sparsemixer, {1.0f, 2.0f, 1.99f, -0.5f}, {}, {1, 2}, {0.502500, 1.000000}},
      {"Phi-3.5, none near", sparsemixer, {1.0f, 2.0f, 1.5f, 0.25f}, {}, {1, 2}, {1.000000, 1.000000}},
      {"Phi-3.5, zeros", sparsemixer, {0.0f, 0.0f, -1.0f}, {}, {0, 1}, {0.5, 1.0}},
  };
}

TEST(RouterRule, EveryFamilySelectsAndWeighsAsItsCodeDoes) {
  for (const Example& example : Examples()) {
    const Selection selection = SelectExperts(example.router, example.logits, example.selection_bias,
                                              static_cast<uint32_t>(example.experts.size()));
    EXPECT_EQ(selection.experts, example.experts) << example.name;
    ASSERT_EQ(selection.weights.size(), example.weights.size()) << example.name;
    for (size_t j = 0; j < example.weights.size(); ++j) {
      EXPECT_NEAR(selection.weights[j], example.weights[j], 1e-6 * (1 + example.weights[j]))
          << example.name << " " << j;
    }
  }
}

TEST(RouterRule, ATableChoosesAndTheScoresWeigh) {
  const Router v4 = RuleOf(Scoring::kSqrtSoftplus, kScoreFirst, Renormalize::kSum, 1.5f);
  const std::vector<float> logits = {-3.0f, 0.0f, 1.0f, 4.0f, 2.0f, -1.0f, 0.5f, 3.0f};
  const std::vector<int32_t> row = {6, 0, 3};
  const Selection selection = WeighExperts(v4, logits, row);
  EXPECT_EQ(selection.experts, row);
  EXPECT_NEAR(selection.weights[0], 0.460919, 1e-6);
  EXPECT_NEAR(selection.weights[1], 0.102941, 1e-6);
  EXPECT_NEAR(selection.weights[2], 0.936140, 1e-6);
}

// Excluded is excluded, also where every score that is left is below zero.
TEST(RouterRule, ExcludedGroupsNeverWin) {
  const Router router =
      WithGroups(RuleOf(Scoring::kSigmoid, kScoreFirst, Renormalize::kSum), 4, 2, GroupScore::kTop2Sum);
  // Scores of 0.5 each, so that the bias alone decides: c = -1.350, -0.998, ...
  const std::vector<float> logits(8, 0.0f);
  const std::vector<float> bias = {-1.850f, -1.498f, -1.846f, -1.389f, -1.250f, -1.169f, -1.681f, -0.800f};
  EXPECT_EQ(SelectExperts(router, logits, bias, 3).experts, (std::vector<int32_t>{7, 5, 4}));
}

TEST(RouterRule, GuardsShowWhereScoresAreTiny) {
  const std::vector<float> logits = {-60, -60, -90};  // sigmoid: 8.7565e-27
  const auto weight = [&](Renormalize renormalize, float guard) {
    return SelectExperts(RuleOf(Scoring::kSigmoid, kScoreFirst, renormalize, 1, guard), logits, {}, 2).weights[0];
  };
  EXPECT_NEAR(weight(Renormalize::kSum, 0), 0.5, 1e-7);
  EXPECT_NEAR(weight(Renormalize::kSumPlus, 1e-20f), 8.7565e-07, 1e-11);
  EXPECT_NEAR(weight(Renormalize::kSumFloor, 6.103515625e-5f), 1.4347e-22, 1e-26);
}

TEST(RouterRule, TiesGoToTheLowerIndexOfExpertsAndOfGroups) {
  const std::vector<float> equal(6, 1.0f);
  for (const Scoring scoring : {Scoring::kSoftmax, Scoring::kSigmoid, Scoring::kSqrtSoftplus, Scoring::kSparsemixer}) {
    Router router = RuleOf(scoring, kScoreFirst, Renormalize::kNone);
    router.epsilon = scoring == Scoring::kSparsemixer ? 0.01f : 0;
    EXPECT_EQ(SelectExperts(router, equal, {}, 2).experts, (std::vector<int32_t>{0, 1})) << WordOf(scoring);
  }
  const Router groups = WithGroups(RuleOf(Scoring::kSigmoid, kScoreFirst, Renormalize::kNone), 3, 1, GroupScore::kMax);
  EXPECT_EQ(SelectExperts(groups, equal, {}, 2).experts, (std::vector<int32_t>{0, 1}));
}

TEST(RouterRule, LargeLogitsStayFinite) {
  const std::vector<float> logits = {3e38f, -3e38f, 25, -25};
  for (const Scoring scoring : {Scoring::kSoftmax, Scoring::kSigmoid, Scoring::kSqrtSoftplus}) {
    const Selection selection = SelectExperts(RuleOf(scoring, kScoreFirst, Renormalize::kNone), logits, {}, 4);
    for (const float weight : selection.weights) EXPECT_GE(weight, 0) << WordOf(scoring);
  }
  EXPECT_EQ(SelectExperts(RuleOf(Scoring::kSqrtSoftplus, kScoreFirst, Renormalize::kNone), {25, 20}, {}, 2).weights[0],
            5);
}

}  // namespace
}  // namespace meshseal::runtime
