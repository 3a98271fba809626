#include "compiler/text/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace meshseal::compiler {
namespace {

TEST(ShortenUtf8, SplitsNoCodePoint) {
  const std::string text =
      "a\xe2\x82\xac"
      "b";
  EXPECT_EQ(ShortenUtf8(text, 9), text);
  EXPECT_EQ(ShortenUtf8(text, 5), text);
  EXPECT_EQ(ShortenUtf8(text, 4), "a\xe2\x82\xac");
  EXPECT_EQ(ShortenUtf8(text, 3), "a");
  EXPECT_EQ(ShortenUtf8(text, 2), "a");
  EXPECT_EQ(ShortenUtf8(text, 1), "a");
  EXPECT_EQ(ShortenUtf8(text, 0), "");
  EXPECT_EQ(ShortenUtf8(std::string(10, '\x80'), 8).size(), 5u);
}

TEST(Quoted, CutsLongText) {
  EXPECT_EQ(Quoted("no"), "'no'");
  EXPECT_EQ(Quoted("8", '"'), "\"8\"");
  EXPECT_EQ(Quoted(std::string(60, 'x')), "'" + std::string(60, 'x') + "'");
  EXPECT_EQ(Quoted(std::string(61, 'x')), "'" + std::string(60, 'x') + "...'");
  EXPECT_EQ(Quoted(std::string(59, 'x') + "\xc3\xa9"), "'" + std::string(59, 'x') + "...'");
}

}  // namespace
}  // namespace meshseal::compiler
