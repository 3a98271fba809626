#include "schema/tensor_name.h"

#include <gtest/gtest.h>

namespace meshseal {
namespace {

TEST(TensorName, FillsLayerAndExpert) {
  EXPECT_EQ(TensorName("model.layers.{layer}.experts.{expert}.w", 3, 12), "model.layers.3.experts.12.w");
  EXPECT_EQ(TensorName("router", 3, 12), "router");
}

TEST(MatchesPattern, PlaceholdersStandForNumbers) {
  EXPECT_TRUE(MatchesPattern("layers.{layer}.w", "layers.0.w"));
  EXPECT_TRUE(MatchesPattern("layers.{layer}.w", "layers.61.w"));
  EXPECT_FALSE(MatchesPattern("layers.{layer}.w", "layers.x.w"));
  EXPECT_FALSE(MatchesPattern("layers.{layer}.w", "layers..w"));
  EXPECT_FALSE(MatchesPattern("layers.{layer}.w", "layers.07.w"));
  EXPECT_FALSE(MatchesPattern("layers.{layer}.w", "layers.7.w.scale"));
}

TEST(MatchesPattern, StarsStandForAnything) {
  EXPECT_TRUE(MatchesPattern("*", ""));
  EXPECT_TRUE(MatchesPattern("model.norm.*", "model.norm.weight"));
  EXPECT_FALSE(MatchesPattern("model.norm.*", "model.norm"));
  EXPECT_TRUE(MatchesPattern("model.layers.{layer}.*_layernorm.*", "model.layers.7.input_layernorm.weight"));
  EXPECT_TRUE(MatchesPattern("*.b.*.d", "a.b.c.b.x.d"));
  EXPECT_FALSE(MatchesPattern("*.b.*.d", "a.b.c.b.x.e"));
}

TEST(MatchesPattern, ManyStarsStayLinearEnough) {
  std::string pattern;
  for (int i = 0; i < 500; ++i) pattern += "*a";
  EXPECT_FALSE(MatchesPattern(pattern, std::string(10000, 'a') + "b"));
}

}  // namespace
}  // namespace meshseal
