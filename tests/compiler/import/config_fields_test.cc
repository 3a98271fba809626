#include "compiler/import/config_fields.h"

#include <gtest/gtest.h>

#include <string>

#include "schema/reason.h"

namespace meshseal::compiler {
namespace {

// What is said about a whole document; "" when it is read.
std::string Said(absl::string_view text) {
  const absl::StatusOr<ConfigFields> fields = ConfigFields::Parse("c.json", text);
  if (fields.ok()) return "";
  EXPECT_EQ(ReasonOf(fields.status()), Reason::kImport);
  return std::string(fields.status().message());
}

ConfigFields Read(absl::string_view text) { return *ConfigFields::Parse("c.json", text); }

template <class T>
std::string SaidOf(const absl::StatusOr<T>& value) {
  EXPECT_FALSE(value.ok());
  return std::string(value.status().message());
}

TEST(ConfigFields, RefusesWhatIsNoJsonObject) {
  EXPECT_EQ(Said("{}"), "");
  EXPECT_EQ(Said("[1]"), "c.json: is no JSON object");
  EXPECT_EQ(Said(""), "c.json: is not JSON near byte 1");
  EXPECT_EQ(Said("{\"a\": 1,}"), "c.json: is not JSON near byte 9");
  EXPECT_EQ(Said("{\"a\": 1} x"), "c.json: is not JSON near byte 10");
  EXPECT_EQ(Said("{\"a\": NaN}"), "c.json: is not JSON near byte 7");
  EXPECT_EQ(Said("{\"a\": 1e999}"), "c.json: is not JSON: a number is out of range");
  EXPECT_EQ(Said("{\"a\": \"\xff\"}"), "c.json: is not JSON near byte 8");
  EXPECT_EQ(Said(std::string("{}\0{", 4)), "c.json: is not JSON: it contains a NUL byte");
}

TEST(ConfigFields, RefusesAKeyThatStandsTwiceAtAnyDepth) {
  EXPECT_EQ(Said(R"({"a": 1, "a": 1})"), "c.json: the key 'a' stands twice in one map");
  EXPECT_EQ(Said(R"({"x": [{"b": {"a": 1, "c": 2, "a": 3}}]})"), "c.json: the key 'a' stands twice in one map");
  EXPECT_EQ(Said(R"({"a": {"a": 1}, "b": {"a": 1}})"), "");
  EXPECT_EQ(Said(R"({"a": 1, "\u0061": 1})"), "c.json: the key 'a' stands twice in one map");
}

TEST(ConfigFields, RefusesDeepNestingBeforeItIsParsed) {
  const auto nested = [](size_t depth) { return "{\"a\": " + std::string(depth, '[') + std::string(depth, ']') + "}"; };
  EXPECT_EQ(Said(nested(31)), "");
  EXPECT_EQ(Said(nested(32)), "c.json: maps and lists lie more than 32 deep");
  EXPECT_EQ(Said(std::string(1'000'000, '[')), "c.json: maps and lists lie more than 32 deep");
  EXPECT_EQ(Said("{\"a\": \"" + std::string(100, '[') + "\\\"[\"}"), "");
}

TEST(ConfigFields, NamesFileFieldFoundAndExpected) {
  const ConfigFields fields = Read(
      R"({"n": 3, "neg": -1, "half": 2.5, "text": "a", "flag": true, "none": null, "list": [1, "a"], "map": {"x": 9}})");
  EXPECT_EQ(*fields.Unsigned("n", 1, 3, "a size"), 3u);
  EXPECT_EQ(SaidOf(fields.Unsigned("n", 4, 9, "a size")), "c.json: n: found 3, expected a whole number from 4 to 9");
  EXPECT_EQ(SaidOf(fields.Unsigned("n", 1, 2, "a size")), "c.json: n: found 3, expected a whole number from 1 to 2");
  EXPECT_EQ(SaidOf(fields.Unsigned("neg", 0, 9, "a size")),
            "c.json: neg: found -1, expected a whole number from 0 to 9");
  EXPECT_EQ(SaidOf(fields.Unsigned("half", 0, 9, "a size")),
            "c.json: half: found 2.5, expected a whole number from 0 to 9");
  EXPECT_EQ(SaidOf(fields.Unsigned("text", 0, 9, "a size")),
            "c.json: text: found \"a\", expected a whole number from 0 to 9");
  EXPECT_EQ(SaidOf(fields.Unsigned("gone", 0, 9, "a size")), "c.json: gone: absent; it is needed as a size");
  EXPECT_EQ(SaidOf(fields.Unsigned("none", 0, 9, "a size")), "c.json: none: absent; it is needed as a size");
  EXPECT_EQ(*fields.Number("n", "a scale"), 3.0);
  EXPECT_EQ(*fields.Number("half", "a scale"), 2.5);
  EXPECT_EQ(SaidOf(fields.Number("flag", "a scale")), "c.json: flag: found true, expected a finite number");
  EXPECT_EQ(SaidOf(fields.Flag("n", "a switch")), "c.json: n: found 3, expected true or false");
  EXPECT_EQ(SaidOf(fields.Text("flag", "a word")), "c.json: flag: found true, expected a text");
  EXPECT_EQ(SaidOf(fields.Texts("list", "words")), "c.json: list: found [1,\"a\"], expected a list of texts");
  EXPECT_EQ(SaidOf(fields.Texts("text", "words")), "c.json: text: found \"a\", expected a list of texts");
  EXPECT_EQ(SaidOf(fields.Unsigneds("list", 9, "numbers")),
            "c.json: list: found [1,\"a\"], expected a list of whole numbers from 0 to 9");
  EXPECT_EQ(SaidOf(fields.Map("n", "a part")), "c.json: n: found 3, expected a map");
  EXPECT_EQ(SaidOf(fields.Map("map", "a part")->Unsigned("x", 0, 1, "a size")),
            "c.json: map.x: found 9, expected a whole number from 0 to 1");
}

TEST(ConfigFields, CutsALongValue) {
  const ConfigFields fields = Read("{\"a\": \"" + std::string(100, 'x') + "\"}");
  EXPECT_EQ(SaidOf(fields.Flag("a", "a switch")),
            "c.json: a: found \"" + std::string(59, 'x') + "..., expected true or false");
}

}  // namespace
}  // namespace meshseal::compiler
