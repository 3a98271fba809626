// Per-layer differences: how a document becomes groups of layers.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/compiler/manifest/shipped_model.h"

namespace meshseal::compiler {
namespace {

std::string Layers(const LayerGroup& group) {
  std::string text;
  for (const LayerRange& range : group.layers) absl::StrAppend(&text, "[", range.first, ",", range.last, ")");
  return text;
}

TEST(ReadModel, OneGroupWhereNothingDiffers) {
  const ShippedModel shipped("qwen3-30b-a3b", {}, "");
  ASSERT_EQ(shipped.Said(), "");
  ASSERT_EQ(shipped.model().groups.size(), 1u);
  EXPECT_EQ(Layers(shipped.model().groups[0]), "[0,48)");
  EXPECT_EQ(shipped.model().groups[0].moe.tensors.size(), 4u);
}

TEST(ReadModel, OverridesMergeFieldByFieldAndReplaceMaps) {
  const ShippedModel shipped("qwen3-30b-a3b", {},
                             "overrides:\n"
                             "  - {layers: [0, 5-6], router: {scale: 2.5}, tensors: {down: {dtype: f16}}}\n"
                             "  - {layers: [7], experts_per_token: 4, activation: {kind: geglu}}\n");
  ASSERT_EQ(shipped.Said(), "");
  const std::vector<LayerGroup>& groups = shipped.model().groups;
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(Layers(groups[0]), "[0,1)[5,7)");
  EXPECT_EQ(Layers(groups[1]), "[1,5)[8,48)");
  EXPECT_EQ(Layers(groups[2]), "[7,8)");
  EXPECT_EQ(groups[0].moe.router.scale.value, 2.5);
  EXPECT_EQ(groups[0].moe.router.scoring.value, Scoring::kSoftmax);  // of the base
  EXPECT_EQ(groups[0].moe.FindTensor(TensorRole::kDown)->dtype.value, DType::kF16);
  EXPECT_EQ(groups[0].moe.FindTensor(TensorRole::kDown)->name.value,
            groups[1].moe.FindTensor(TensorRole::kDown)->name.value);
  EXPECT_EQ(groups[1].moe.router.scale.value, 1.0);
  EXPECT_EQ(groups[2].moe.experts_per_token.value, 4u);
  EXPECT_EQ(groups[2].moe.activation.kind.value, ActivationKind::kGeGlu);
}

TEST(ReadModel, AnOverrideTakesASideTensorAway) {
  const ShippedModel shipped("qwen3-30b-a3b-fp8", {},
                             "overrides:\n  - {layers: [47], tensors: {down: {dtype: bf16, scale: none}}}\n");
  ASSERT_EQ(shipped.Said(), "");
  ASSERT_EQ(shipped.model().groups.size(), 2u);
  EXPECT_TRUE(shipped.model().groups[0].moe.FindTensor(TensorRole::kDown)->scale.has_value());
  EXPECT_FALSE(shipped.model().groups[1].moe.FindTensor(TensorRole::kDown)->scale.has_value());
}

TEST(ReadModel, ExpertCountsSplitLayers) {
  const ShippedModel shipped("qwen3-30b-a3b", {{"experts: 128", "experts: {default: 128, 1: 96, 4-5: 96, 7: 64}"}}, "");
  ASSERT_EQ(shipped.Said(), "");
  const std::vector<LayerGroup>& groups = shipped.model().groups;
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(Layers(groups[0]), "[0,1)[2,4)[6,7)[8,48)");
  EXPECT_EQ(Layers(groups[1]), "[1,2)[4,6)");
  EXPECT_EQ(groups[1].moe.experts.value, 96u);
  EXPECT_EQ(Layers(groups[2]), "[7,8)");
  EXPECT_EQ(groups[2].moe.experts.value, 64u);
}

TEST(ReadModel, TokenTableLayersAreAGroupWithoutSelectionBias) {
  const ShippedModel shipped("deepseek-v4-flash", {}, "");
  ASSERT_EQ(shipped.Said(), "");
  ASSERT_EQ(shipped.model().groups.size(), 2u);
  EXPECT_EQ(Layers(shipped.model().groups[0]), "[0,3)");
  EXPECT_FALSE(shipped.model().groups[0].moe.router.token_table_layers.value.empty());
  EXPECT_EQ(Layers(shipped.model().groups[1]), "[3,43)");
  EXPECT_TRUE(shipped.model().groups[1].moe.router.token_table_layers.value.empty());
}

TEST(ReadModel, AnErrorOfTheBaseIsToldOnce) {
  const ShippedModel shipped("qwen3-30b-a3b", {{"scale: 1.0", "scale: 0.0"}},
                             "overrides:\n"
                             "  - {layers: [1], experts_per_token: 4}\n"
                             "  - {layers: [2], experts_per_token: 2}\n");
  EXPECT_EQ(shipped.Said(),
            "router.scale must be above 0 and fit float32: every routed output is multiplied by it "
            "[router-scale-positive]\n");
}

TEST(ReadModel, WhatAnOverrideMayNotSay) {
  const ShippedModel shipped("qwen3-30b-a3b", {},
                             "overrides:\n"
                             "  - {layers: [1], experts: 96}\n"
                             "  - {layers: [2], router: {token_table: none}}\n"
                             "  - {layers: [2, 3], tensors: [down]}\n"
                             "  - {experts_per_token: 4}\n");
  EXPECT_EQ(shipped.Said(),
            "unknown key 'experts' in overrides [unknown-key]\n"
            "unknown key 'token_table' in overrides.router [unknown-key]\n"
            "layer 2 stands twice [layers-told-once]\n"
            "overrides.tensors: expected a map from roles to fields [wrong-kind]\n"
            "overrides: required key 'layers' is missing [missing-field]\n");
}

TEST(ReadModel, NamesAndPatternsHaveLimits) {
  const std::string long_name(257, 'n');
  const ShippedModel shipped(
      "qwen3-30b-a3b", {{"model.layers.{layer}.mlp.gate.weight", long_name}, {"lm_head.*", "*a*a*a*a*a*a*a*a*a"}}, "");
  EXPECT_EQ(shipped.Said(),
            "weights.tensors.router: a name of 257 bytes, expected at most 256 [out-of-range]\n"
            "weights.ignored: a pattern with 9 stars, expected at most 8 [out-of-range]\n");
}

TEST(ReadModel, TextHasNoControlCharactersAndIsNotLong) {
  const ShippedModel shipped("qwen3-30b-a3b",
                             {{"model.layers.{layer}.mlp.gate.weight", "model.\\t{layer}"},
                              {"family: qwen3_moe", "family: \"a\\x7fb\""},
                              {"name: qwen3-30b-a3b", absl::StrCat("name: ", std::string(1025, 'n'))},
                              {"lm_head.*", "\\0"}},
                             "");
  EXPECT_EQ(shipped.missing_edit(), "");
  EXPECT_EQ(shipped.Said(),
            "model.name: 1025 bytes, expected at most 1024 [out-of-range]\n"
            "model.family: expected text without control characters [wrong-kind]\n"
            "weights.tensors.router.name: expected text without control characters [wrong-kind]\n"
            "weights.ignored: expected text without control characters [wrong-kind]\n");
}

TEST(ReadModel, WordsWithParameters) {
  const ShippedModel shipped("qwen3-30b-a3b",
                             {{"renormalize: sum", "renormalize: sum_plus"},
                              {"scoring: softmax", "scoring: {softmax: {eps: 0.01}}"},
                              {"source: safetensors", "source: {synthetic: {seed: 7, size: 3}}"}},
                             "");
  EXPECT_EQ(shipped.Said(),
            "moe.router.scoring: 'softmax' takes no parameters [wrong-kind]\n"
            "moe.router.renormalize: 'sum_plus' takes parameters, expected {sum_plus: {...}} [wrong-kind]\n"
            "unknown key 'size' in weights.source.synthetic [unknown-key]\n");
}

}  // namespace
}  // namespace meshseal::compiler
