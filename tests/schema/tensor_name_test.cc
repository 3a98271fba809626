#include "schema/tensor_name.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

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

TEST(PatternsOverlap, WhereSomeNameIsOfBoth) {
  const auto expect = [](bool overlap, absl::string_view a, absl::string_view b) {
    EXPECT_EQ(PatternsOverlap(a, b), overlap) << std::string(a) << " and " << std::string(b);
    EXPECT_EQ(PatternsOverlap(b, a), overlap) << std::string(b) << " and " << std::string(a);
  };
  expect(true, "a.b", "a.b");
  expect(false, "a.b", "a.c");
  expect(false, "a.b", "a.bc");
  expect(true, "a.*", "a.b");
  expect(true, "*", "");
  expect(true, "*.weight", "layers.{layer}.gate.weight");
  expect(false, "*.bias", "layers.{layer}.gate.weight");
  expect(true, "layers.3.*", "layers.{layer}.gate");
  expect(false, "layers.x.*", "layers.{layer}.gate");
  expect(true, "*.experts.7.*", "layers.{layer}.experts.{expert}.down");
  expect(true, "experts.0.gate", "experts.{expert}.gate");
  expect(true, "{layer}{expert}", "{layer}");  // 11 is layer 1, expert 1, and layer 11
  expect(false, "{layer}{expert}", "1");
  expect(true, "a*b*c", "*x*y*");
  expect(false, "a*b", "b*a");
}

// Names made of a pattern are of both patterns or of one, as matching says.
TEST(PatternsOverlap, AgreesWithMatching) {
  const std::vector<std::string> patterns = {
      "a*",          "*a",           "a{layer}", "{layer}.*",         "*.{expert}.b",
      "a.{layer}.b", "a.1.{expert}", "*1*",      "a.{layer}{expert}", "a.12.b"};
  const std::vector<std::string> names = {"a", "a1", "1.a", "a.1.b", "a.12.b", "a.1.2", "a.12", "x.3.b", "a.11"};
  for (const std::string& a : patterns) {
    for (const std::string& b : patterns) {
      for (const std::string& name : names) {
        if (MatchesPattern(a, name) && MatchesPattern(b, name)) {
          EXPECT_TRUE(PatternsOverlap(a, b)) << a << " and " << b << " have " << name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace meshseal
