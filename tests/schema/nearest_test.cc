#include "schema/nearest.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace meshseal {
namespace {

std::string Found(absl::string_view word, const std::vector<absl::string_view>& candidates) {
  const std::optional<absl::string_view> nearest = Nearest(word, candidates);
  return nearest ? std::string(*nearest) : "-";
}

TEST(Nearest, OneEditOfAnyKind) {
  const std::vector<absl::string_view> keys = {"experts", "layers", "hidden_size"};
  EXPECT_EQ(Found("expert", keys), "experts");
  EXPECT_EQ(Found("expertss", keys), "experts");
  EXPECT_EQ(Found("exparts", keys), "experts");
  EXPECT_EQ(Found("exprets", keys), "experts");
  EXPECT_EQ(Found("experts", keys), "experts");
}

TEST(Nearest, AcceptsAThirdOfTheWordAndNoMore) {
  EXPECT_EQ(Found("xxddle", {"middle"}), "middle");
  EXPECT_EQ(Found("xxxdle", {"middle"}), "-");
  EXPECT_EQ(Found("tq", {"tp"}), "tp");
  EXPECT_EQ(Found("qq", {"tp"}), "-");
  EXPECT_EQ(Found("", {"t"}), "t");
  EXPECT_EQ(Found("", {"tp"}), "-");
}

TEST(Nearest, ASwapIsOneEdit) {
  EXPECT_EQ(Found("pt", {"tp"}), "tp");
  EXPECT_EQ(Found("abdc", {"abcd"}), "abcd");
  EXPECT_EQ(Found("badc", {"abcd"}), "-");
}

TEST(Nearest, TheNearestWinsAndThenTheFirst) {
  EXPECT_EQ(Found("scaling", {"scoring", "scalin", "scale"}), "scalin");
  EXPECT_EQ(Found("xp", {"dp", "pp", "tp", "ep"}), "dp");
  EXPECT_EQ(Found("xp", {"ep", "tp"}), "ep");
  EXPECT_EQ(Found("abcdefg", {"abcdxyg", "abcdefx", "abcdexg"}), "abcdefx");
}

TEST(Nearest, NoCandidates) { EXPECT_EQ(Found("word", {}), "-"); }

TEST(Nearest, LongWordsCostNothing) {
  const std::string word(1 << 20, 'x');
  EXPECT_EQ(Found(word, {"experts", "layers"}), "-");
}

}  // namespace
}  // namespace meshseal
