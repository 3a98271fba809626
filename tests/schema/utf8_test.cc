#include "schema/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace meshseal {
namespace {

TEST(FirstCodePoint, OneToFourBytes) {
  const struct {
    const char* text;
    char32_t value;
    size_t length;
  } kRows[] = {{"a", 'a', 1},
               {"\x7f", 0x7f, 1},
               {"\xc2\x80z", 0x80, 2},
               {"\xdf\xbf", 0x7ff, 2},
               {"\xe0\xa0\x80", 0x800, 3},
               {"\xef\xbf\xbf", 0xffff, 3},
               {"\xed\x9f\xbf", 0xd7ff, 3},
               {"\xf0\x90\x80\x80", 0x10000, 4},
               {"\xf4\x8f\xbf\xbfz", 0x10ffff, 4}};
  for (const auto& row : kRows) {
    const auto point = FirstCodePoint(row.text);
    ASSERT_TRUE(point.has_value()) << row.text;
    EXPECT_EQ(point->value, row.value);
    EXPECT_EQ(point->length, row.length);
  }
}

TEST(FirstCodePoint, RefusesWhatIsNotUtf8) {
  for (const char* text :
       {"", "\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc3", "\xc3z", "\xe0\x80\x80", "\xe0\x9f\xbf", "\xe2\x82",
        "\xe2\x82z", "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x80\x80\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80", "\xf8\x88\x80\x80\x80", "\xff"}) {
    EXPECT_FALSE(FirstCodePoint(text).has_value()) << text;
  }
}

TEST(IsUtf8, ReadsToTheEnd) {
  EXPECT_TRUE(IsUtf8(""));
  EXPECT_TRUE(IsUtf8("gr\xc3\xbc\xc3\x9f"));
  EXPECT_FALSE(IsUtf8("a\xc3"));
  EXPECT_FALSE(IsUtf8("\xed\xa0\x80"));
}

TEST(Utf8, ControlCharactersOfAsciiAreSeen) {
  EXPECT_FALSE(HasControlCharacter(""));
  EXPECT_FALSE(HasControlCharacter(" ~\xC3\xA9\xFF"));
  for (const char c : {'\0', '\t', '\n', '\x1f', '\x7f'}) EXPECT_TRUE(HasControlCharacter(std::string{'a', c, 'b'}));
}

}  // namespace
}  // namespace meshseal
