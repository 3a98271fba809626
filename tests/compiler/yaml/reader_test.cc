#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/compiler/yaml/yaml_document.h"

namespace meshseal::compiler {
namespace {

std::string Said(const std::string& text) {
  const YamlDocument document(text);
  EXPECT_FALSE(document.accepted()) << text.substr(0, 200);
  return document.Said();
}

std::string TreeOf(const std::string& text) {
  const YamlDocument document(text);
  EXPECT_EQ(document.Said(), "");
  return document.accepted() ? Tree(document.root()) : "refused";
}

std::string Times(int count, const std::string& text) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

TEST(ReadYaml, BlockMapsAndLists) {
  EXPECT_EQ(TreeOf("model:\n  name: toy\n  layers:\n    - 1\n    - two\n"),
            "{model@1:1+5={name@2:3+4='toy'@2:9+3, layers@3:3+6=['1'@4:7+1, 'two'@5:7+3]@4:5+1}@2:3+4}@1:1+5");
}

TEST(ReadYaml, NestedFlowMapsHaveTheirOwnSpans) {
  EXPECT_EQ(TreeOf("parallel: {dp: 1, dense: {tp: 8, list: [3-60, \"a\"]}}"),
            "{parallel@1:1+8={dp@1:12+2='1'@1:16+1, dense@1:19+5={tp@1:27+2='8'@1:31+1, "
            "list@1:34+4=['3-60'@1:41+4, \"a\"@1:47+3]@1:40+1}@1:26+1}@1:11+1}@1:1+8");
}

TEST(ReadYaml, ListsOfMaps) {
  EXPECT_EQ(TreeOf("- a: 1\n  b: 2\n- {c: 3}\n- [d: 4]\n"),
            "[{a@1:3+1='1'@1:6+1, b@2:3+1='2'@2:6+1}@1:3+1, {c@3:4+1='3'@3:7+1}@3:3+1, "
            "[{d@4:4+1='4'@4:7+1}@4:4+1]@4:3+1]@1:1+1");
}

TEST(ReadYaml, EmptyMapListAndText) {
  EXPECT_EQ(TreeOf("a: {}\nb: []\nc: \"\"\n"), "{a@1:1+1={}@1:4+1, b@2:1+1=[]@2:4+1, c@3:1+1=\"\"@3:4+2}@1:1+1");
}

TEST(ReadYaml, QuotedScalars) {
  EXPECT_EQ(TreeOf("a: 'it''s'\nb: \"x\\\"\\u00e9\" # why\nc: 'null'\n"),
            "{a@1:1+1=\"it's\"@1:4+7, b@2:1+1=\"x\"\xc3\xa9\"@2:4+11, c@3:1+1=\"null\"@3:4+6}@1:1+1");
}

TEST(ReadYaml, ScalarsOfSeveralLinesSpanTheirFirst) {
  EXPECT_EQ(TreeOf("a: one\n  two\nb: \"three\n  four\"\nc: |\n  five\nd: >-\n  six\n"),
            "{a@1:1+1='one two'@1:4+3, b@3:1+1=\"three four\"@3:4+6, c@5:1+1=\"five\n\"@5:4+1, "
            "d@7:1+1=\"six\"@7:4+1}@1:1+1");
}

TEST(ReadYaml, WindowsLineEnds) {
  EXPECT_EQ(TreeOf("a: one\r\nb: \"two\r\n  three\"\r\n"), "{a@1:1+1='one'@1:4+3, b@2:1+1=\"two three\"@2:4+4}@1:1+1");
}

TEST(ReadYaml, ColumnsCountBytes) {
  EXPECT_EQ(TreeOf("\xc3\xa9: {\xe2\x82\xac: \xf0\x9f\x99\x82, b: 1}"),
            "{\xc3\xa9@1:1+2={\xe2\x82\xac@1:6+3='\xf0\x9f\x99\x82'@1:11+4, b@1:17+1='1'@1:20+1}@1:5+1}@1:1+2");
}

TEST(ReadYaml, TabsSeparateButDoNotIndent) {
  EXPECT_EQ(TreeOf("a:\t1\t# one\n"), "{a@1:1+1='1'@1:4+1}@1:1+1");
  EXPECT_EQ(Said("a:\n\tb: 1\n"),
            "2:3+1: ':' cannot stand here; check the indentation, or quote the text [yaml-syntax]\n");
}

TEST(ReadYaml, MarkersOfOneDocument) {
  EXPECT_EQ(TreeOf("# why\n---\na: 1\n...\n# end\n"), "{a@3:1+1='1'@3:4+1}@3:1+1");
}

TEST(ReadYaml, ScalarsKeepTheirText) {
  EXPECT_EQ(TreeOf("[no, 010, 0x40, .nan, <<, 1_000, 2.10]"),
            "['no'@1:2+2, '010'@1:6+3, '0x40'@1:11+4, '.nan'@1:17+4, '<<'@1:23+2, '1_000'@1:27+5, "
            "'2.10'@1:34+4]@1:1+1");
}

TEST(ReadYaml, NothingToRead) {
  for (const char* text : {"", "\n", "# only\n  # comments\n", "---\n", "---\n...\n", "~", "null"}) {
    EXPECT_EQ(Said(text), "-: the file holds no value [yaml-empty]\n") << text;
  }
}

TEST(ReadYaml, BrokenSyntax) {
  EXPECT_EQ(Said("a: [1, 2\n"), "2:1+0: expected ',' or ']' here [yaml-syntax]\n");
  EXPECT_EQ(Said("a: {b: 1\nc: 2"), "2:2+1: expected ',' or '}' here [yaml-syntax]\n");
  EXPECT_EQ(Said("a: 1\nb 2\nc: 3\n"),
            "3:2+1: ':' cannot stand here; check the indentation, or quote the text [yaml-syntax]\n");
  EXPECT_EQ(Said("a: 1\n- 2\n"), "2:1+1: expected a key and ':' at this map's indentation here [yaml-syntax]\n");
  EXPECT_EQ(Said("a:\n  - 1\n  b: 2\n"),
            "3:3+1: expected a key and ':' at this map's indentation here [yaml-syntax]\n");
  EXPECT_EQ(Said("a: {b: [c, {d"), "1:14+0: expected ',' or '}' here [yaml-syntax]\n");
  EXPECT_EQ(Said("{"), "1:2+0: expected ',' or '}' here [yaml-syntax]\n");
  EXPECT_EQ(Said("a: \"x"), "1:6+0: a quoted string is not closed [yaml-syntax]\n");
  // The rest of the file would be its text.
  EXPECT_EQ(Said("a: \"x\nb: 2\n"), "1:4+2: a quoted string is not closed [yaml-syntax]\n");
  EXPECT_EQ(Said("a: 'x''\nb: 2\n"), "1:4+4: a quoted string is not closed [yaml-syntax]\n");
  EXPECT_EQ(Said("a: \"x\\\"\n"), "1:4+4: a quoted string is not closed [yaml-syntax]\n");
  EXPECT_EQ(Said("- \"\n"), "1:3+1: a quoted string is not closed [yaml-syntax]\n");
  EXPECT_EQ(Said("\"k\n"), "1:1+2: a quoted string is not closed [yaml-syntax]\n");
  EXPECT_EQ(Said("a: \"\\q\""), "1:7+1: this escape does not exist [yaml-syntax]\n");
  EXPECT_EQ(Said("a: \"\\xzz\""), "1:9+1: the escape's digits are not hexadecimal [yaml-syntax]\n");
  EXPECT_EQ(Said("a: \"\\ud800\""), "1:11+1: the escape names no Unicode character [yaml-syntax]\n");
  EXPECT_EQ(Said("a: @x"), "1:4+1: a value cannot begin with this character; quote it [yaml-syntax]\n");
  EXPECT_EQ(Said("a: ]"), "1:4+1: this bracket closes nothing [yaml-syntax]\n");
  EXPECT_EQ(Said("a: - 1"), "1:4+1: a list item ('- ') cannot stand here [yaml-syntax]\n");
  EXPECT_EQ(Said("a: b: c"), "1:5+1: ':' cannot stand here; check the indentation, or quote the text [yaml-syntax]\n");
  EXPECT_EQ(Said("a: ? b"), "1:4+1: '?' cannot stand here [yaml-syntax]\n");
  EXPECT_EQ(Said("a: |x\n  b"), "1:5+1: this cannot follow '|' or '>' [yaml-syntax]\n");
  EXPECT_EQ(Said("a: |0\n  b"), "1:6+1: a block scalar's indentation cannot be 0 [yaml-syntax]\n");
  EXPECT_EQ(Said("a: \"x\n--- y\""), "2:1+1: '---' or '...' stands in a quoted string [yaml-syntax]\n");
}

TEST(ReadYaml, AnchorsAliasesAndTags) {
  const std::string anchor = ": anchors are not read; write the value out [yaml-anchor]\n";
  const std::string alias = ": aliases are not read; write the value out [yaml-alias]\n";
  const std::string tag = ": tags are not read; the field decides what a value means [yaml-tag]\n";
  EXPECT_EQ(Said("a: &t 2\n"), "1:4+1: anchor 't'" + anchor);
  EXPECT_EQ(Said("&k a: 2\n"), "1:1+1: anchor 'k'" + anchor);
  EXPECT_EQ(Said("a: &t 2\nb: *t\n"), "1:4+1: anchor 't'" + anchor + "2:4+1" + alias);
  EXPECT_EQ(Said("a: &t b\n*t : 2\n"), "1:4+1: anchor 't'" + anchor + "2:1+1" + alias);
  EXPECT_EQ(Said("a: &t\n"), "1:1+1: key 'a' has no value [yaml-empty-value]\n1:4+1: anchor 't'" + anchor);
  EXPECT_EQ(Said("a: & b\n"), "1:5+1" + anchor);
  EXPECT_EQ(Said("a: * b\n"), "1:5+1" + alias);
  EXPECT_EQ(Said("a: &t &u 1\n"), "1:7+1" + anchor);
  for (const char* tagged : {"a: !!int 2", "a: !mine 2", "a: ! 2", "a: ! \"2\"", "a: !<x> 2", "a: ! [2]",
                             "a: !!map {b: 2}", "a: !", "a: !x\n  b: 2"}) {
    EXPECT_EQ(Said(tagged), "1:4+1" + tag) << tagged;
  }
  EXPECT_EQ(Said("! a: 2"), "1:1+1" + tag);
}

TEST(ReadYaml, EmptyValues) {
  EXPECT_EQ(Said("a:\nb: ~\nc: null\nd: [1, , 2]\ne: {f, g: }\nh:\n  - 1\n  -\n"),
            "1:1+1: key 'a' has no value [yaml-empty-value]\n"
            "2:1+1: key 'b' has no value [yaml-empty-value]\n"
            "3:1+1: key 'c' has no value [yaml-empty-value]\n"
            "4:4+1: item 2 of this list has no value [yaml-empty-value]\n"
            "5:5+1: key 'f' has no value [yaml-empty-value]\n"
            "5:8+1: key 'g' has no value [yaml-empty-value]\n"
            "7:3+1: item 2 of this list has no value [yaml-empty-value]\n");
  EXPECT_EQ(Said("a: 1\nb\n"), "2:1+1: key 'b' has no value [yaml-empty-value]\n");
}

TEST(ReadYaml, KeysAreScalars) {
  EXPECT_EQ(Said("? [a, b]\n: 1\n? {c: d}\n: 2\n: 3\n~: 4\n"),
            "1:3+1: a key is a list [yaml-key-not-scalar]\n"
            "3:3+1: a key is a map [yaml-key-not-scalar]\n"
            "5:1+1: a key is empty or null [yaml-key-not-scalar]\n"
            "6:1+1: a key is empty or null [yaml-key-not-scalar]\n");
  EXPECT_EQ(TreeOf("? a\n: 1\n? b\n: 2\n"), "{a@1:3+1='1'@2:3+1, b@3:3+1='2'@4:3+1}@1:1+1");
}

TEST(ReadYaml, DuplicateKeysPointAtTheFirst) {
  EXPECT_EQ(Said("a: 1\nb: {c: 1, d: 2, c: 3, \"c\": 4}\na: 2\n"),
            "2:17+1: key 'c' stands here again [duplicate-key]\n  note 2:5+1: the first one is here\n"
            "2:23+3: key 'c' stands here again [duplicate-key]\n  note 2:5+1: the first one is here\n"
            "3:1+1: key 'a' stands here again [duplicate-key]\n  note 1:1+1: the first one is here\n");
  EXPECT_EQ(TreeOf("[{a: 1}, {a: 2}]"), "[{a@1:3+1='1'@1:6+1}@1:2+1, {a@1:11+1='2'@1:14+1}@1:10+1]@1:1+1");
}

TEST(ReadYaml, OneDocument) {
  const std::string second = ": a second document starts here; a file holds one [yaml-one-document]\n";
  EXPECT_EQ(Said("a: 1\n---\nb: 2\n"), "2:1+3" + second);
  EXPECT_EQ(Said("a: 1\n---\n"), "2:1+3" + second);
  EXPECT_EQ(Said("---\n---\na: 1"), "2:1+3" + second);
  EXPECT_EQ(Said("--- a\n--- b\n"), "2:1+3" + second);
  const std::string directive = ": a directive ('%' at the start of a line) is not read [yaml-one-document]\n";
  EXPECT_EQ(Said("%YAML 1.2\n---\na: 1\n"), "1:1+9" + directive);
  EXPECT_EQ(Said("a: 1\n%b: 2\n"), "2:1+5" + directive);
  EXPECT_EQ(Said("a: 1\n...\n%YAML 1.2\n"), "3:1+9" + directive);
}

// What stands after the root is dropped by the parser without a word.
TEST(ReadYaml, InputThatWouldNotBeRead) {
  const std::string unread =
      ": this and what follows is outside the document and would not be read [yaml-unread-input]\n";
  EXPECT_EQ(Said("- 1\nb: 2\n"), "2:1+1" + unread);
  EXPECT_EQ(Said("{a: 1} {b: 2}\n"), "1:8+1" + unread);
  EXPECT_EQ(Said("[1]\n[2]\n"), "2:1+1" + unread);
  EXPECT_EQ(Said("  a: 1\n b: 2\n"), "2:2+1" + unread);
  EXPECT_EQ(Said("\"a\" \"b\"\n"), "1:5+1" + unread);
  EXPECT_EQ(Said("[1] x\n"), "1:5+1" + unread);
  EXPECT_EQ(Said("a: 1\n...\nb: 2\n"), "3:1+1" + unread);
  EXPECT_EQ(Said("- 1\n]\n"), "2:1+1: this bracket closes nothing [yaml-syntax]\n");
  EXPECT_EQ(Said("{a: 1}}\n"), "1:7+1: this bracket closes nothing [yaml-syntax]\n");
  EXPECT_EQ(TreeOf("- 1\n# b: 2\n...\n"), "['1'@1:3+1]@1:1+1");
}

TEST(ReadYaml, Encoding) {
  const std::string rule = " [yaml-encoding]\n";
  EXPECT_EQ(Said("a: x\xffy"), "1:5+1: byte 0xff is not UTF-8" + rule);
  EXPECT_EQ(Said("a: \xc0\xaf"), "1:4+1: byte 0xc0 is not UTF-8" + rule);
  EXPECT_EQ(Said("a: \xed\xa0\x80"), "1:4+1: byte 0xed is not UTF-8" + rule);
  EXPECT_EQ(Said("a: \xf4\x90\x80\x80"), "1:4+1: byte 0xf4 is not UTF-8" + rule);
  EXPECT_EQ(Said("a: \xe2\x82"), "1:4+1: byte 0xe2 is not UTF-8" + rule);
  EXPECT_EQ(Said(std::string("a: 1\n\0b: 2", 11)), "2:1+1: control character U+0000 is not read" + rule);
  // yaml-cpp takes this byte for the end of the file.
  EXPECT_EQ(Said("a: 1\n\x04\nb: 2"), "2:1+1: control character U+0004 is not read" + rule);
  EXPECT_EQ(Said("a: \x1b[31m"), "1:4+1: control character U+001B is not read" + rule);
  EXPECT_EQ(Said("a: \x7f"), "1:4+1: control character U+007F is not read" + rule);
  EXPECT_EQ(Said("a: \xc2\x85"), "1:4+1: control character U+0085 is not read" + rule);
  EXPECT_EQ(Said("a: \xe2\x80\xa8"), "1:4+1: control character U+2028 is not read" + rule);
  EXPECT_EQ(Said("a: \xef\xbf\xbf"), "1:4+1: control character U+FFFF is not read" + rule);
  EXPECT_EQ(Said("a: 1 # c\rb: 2\n"), "1:9+1: a carriage return without a line feed is not read" + rule);
  EXPECT_EQ(Said("\xef\xbb\xbf"
                 "a: 1"),
            "1:1+1: a byte order mark is not read; write the file without one" + rule);
  EXPECT_EQ(Said("a: \xef\xbb\xbf"
                 "1"),
            "1:4+1: a byte order mark is not read; write the file without one" + rule);
  EXPECT_EQ(Said(std::string("\xff\xfe"
                             "a\0:\0",
                             6)),
            "1:1+1: the file is UTF-16; write it as UTF-8" + rule);
  EXPECT_EQ(Said(std::string("\xfe\xff\0a\0:", 6)), "1:1+1: the file is UTF-16; write it as UTF-8" + rule);
  EXPECT_EQ(Said(std::string("a\0:\0", 4)), "1:2+1: control character U+0000 is not read" + rule);
}

TEST(ReadYaml, DepthLimit) {
  const std::string deep = ": maps and lists are nested more than 32 deep [yaml-limit]\n";
  EXPECT_TRUE(YamlDocument(Times(32, "[") + Times(32, "]")).accepted());
  EXPECT_EQ(Said(Times(33, "[") + Times(33, "]")), "1:33+1" + deep);
  EXPECT_TRUE(YamlDocument(Times(31, "{a: ") + "{}" + Times(31, "}")).accepted());
  EXPECT_EQ(Said(Times(32, "{a: ") + "{}" + Times(32, "}")), "1:129+1" + deep);
  EXPECT_TRUE(YamlDocument(Times(32, "- ") + "x").accepted());
  EXPECT_EQ(Said(Times(33, "- ") + "x"), "1:65+1" + deep);
}

TEST(ReadYaml, NodeLimit) {
  EXPECT_TRUE(YamlDocument(Times(999'999, "- 1\n")).accepted());
  EXPECT_EQ(Said(Times(1'000'000, "- 1\n")),
            "1000000:3+1: more than 1000000 keys and values in one file [yaml-limit]\n");
}

TEST(ReadYaml, ScalarLimit) {
  EXPECT_TRUE(YamlDocument("a: " + Times(65'536, "x")).accepted());
  EXPECT_EQ(Said("a: " + Times(65'537, "x")), "1:4+65537: text of 65537 bytes; the most is 65536 [yaml-limit]\n");
  EXPECT_EQ(Said(absl::StrCat("a: \"", Times(65'537, "x"), "\"")),
            "1:4+65539: text of 65537 bytes; the most is 65536 [yaml-limit]\n");
}

// The parser would hold the whole of it in memory.
TEST(ReadYaml, LookaheadLimit) {
  const std::string limit = "+1: no key or value is complete within 524288 bytes [yaml-limit]\n";
  EXPECT_TRUE(YamlDocument(absl::StrCat("[", Times(200'000, "1,"), "1]")).accepted());
  EXPECT_EQ(Said(absl::StrCat("[", Times(300'000, "1,"), "1]")), "1:1" + limit);
  EXPECT_EQ(Said(absl::StrCat("a: 1\nb: ", Times(600'000, "["))), "2:4" + limit);
  EXPECT_EQ(Said(absl::StrCat("a: 1\n", Times(600'000, "\n"))), "1:1" + limit);
}

TEST(ReadYaml, ErrorLimit) {
  const YamlDocument most(Times(10'000, "- &a 1\n"));
  EXPECT_EQ(most.Said().find("yaml-limit"), std::string::npos);
  const YamlDocument more(Times(10'001, "- &a 1\n"));
  EXPECT_NE(more.Said().find("10001:3+1: more than 10000 errors in one file; the rest is not read [yaml-limit]\n"),
            std::string::npos);
  EXPECT_FALSE(YamlDocument(Times(20'000, "a: 1\n")).accepted());
}

// Bad inputs that must be refused by name; those on numbers are in scalar_test.cc.
TEST(ReadYaml, KnownBadInputs) {
  EXPECT_EQ(Said(Times(100'000, "[")), "1:17+1: maps and lists are nested more than 32 deep [yaml-limit]\n");
  std::string maps;
  for (int i = 0; i < 4'000; ++i) absl::StrAppend(&maps, std::string(static_cast<size_t>(i), ' '), "a:\n");
  EXPECT_EQ(Said(maps), "33:33+1: maps and lists are nested more than 32 deep [yaml-limit]\n");
  EXPECT_EQ(Said(Times(20'000, "{a: ")), "1:125+1: maps and lists are nested more than 32 deep [yaml-limit]\n");

  // An alias bomb of 10 levels by 10: refused as it stands, never expanded.
  std::string bomb = "a0: &a0 x\n";
  for (int level = 1; level < 10; ++level) {
    absl::StrAppend(&bomb, "a", level, ": &a", level, " [*a", level - 1);
    for (int i = 1; i < 10; ++i) absl::StrAppend(&bomb, ", *a", level - 1);
    absl::StrAppend(&bomb, "]\n");
  }
  YamlDocument exploded(bomb);
  EXPECT_FALSE(exploded.accepted());
  EXPECT_EQ(exploded.diagnostics().size(), 10u + 9u * 10u);
  // A cycle, and an alias to nothing.
  EXPECT_EQ(Said("&a [*a]"),
            "1:1+1: anchor 'a': anchors are not read; write the value out [yaml-anchor]\n"
            "1:5+1: aliases are not read; write the value out [yaml-alias]\n");
  EXPECT_EQ(Said("a: *b"), "1:4+1: aliases are not read; write the value out [yaml-alias]\n");
}

}  // namespace
}  // namespace meshseal::compiler
