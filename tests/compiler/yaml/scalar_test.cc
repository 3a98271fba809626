#include "compiler/yaml/scalar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/compiler/yaml/yaml_document.h"

namespace meshseal::compiler {
namespace {

// What `read` says of `written`, a value at 1:4: its text and help, without the place.
template <class F>
std::string Refusal(const std::string& written, F read) {
  YamlDocument document(absl::StrCat("v: ", written));
  EXPECT_TRUE(document.accepted()) << written << document.Said();
  if (!document.accepted()) return "";
  EXPECT_FALSE(read(document.at("v"), document.diagnostics()).has_value()) << written;
  EXPECT_EQ(document.diagnostics().size(), 1u) << written;
  const std::string said = document.Said();
  EXPECT_EQ(said.rfind("1:4+", 0), 0u) << said;
  return said.substr(said.find(": ") + 2);
}

template <class F>
auto Value(const std::string& written, F read) {
  YamlDocument document(absl::StrCat("v: ", written));
  EXPECT_TRUE(document.accepted()) << written << document.Said();
  auto value = read(document.at("v"), document.diagnostics());
  EXPECT_EQ(document.Said(), "");
  return value;
}

std::optional<uint64_t> Unsigned(const YamlNode& node, Diagnostics& diagnostics) {
  return ReadUnsigned(node, "experts", UnsignedRange{}, diagnostics);
}
std::optional<uint64_t> Small(const YamlNode& node, Diagnostics& diagnostics) {
  return ReadUnsigned(node, "experts", UnsignedRange{1, 1024}, diagnostics);
}
std::optional<bool> Bool(const YamlNode& node, Diagnostics& diagnostics) {
  return ReadBool(node, "gated", diagnostics);
}
std::optional<double> Float(const YamlNode& node, Diagnostics& diagnostics) {
  return ReadFloat(node, "scale", diagnostics);
}
std::optional<std::string> Text(const YamlNode& node, Diagnostics& diagnostics) {
  return ReadText(node, "name", diagnostics);
}
std::optional<uint64_t> Bytes(const YamlNode& node, Diagnostics& diagnostics) {
  return ReadBytes(node, "memory", diagnostics);
}
std::optional<uint64_t> ByteRate(const YamlNode& node, Diagnostics& diagnostics) {
  return ReadRate(node, "bandwidth", Rate::kBytesPerSecond, diagnostics);
}
std::optional<uint64_t> FlopRate(const YamlNode& node, Diagnostics& diagnostics) {
  return ReadRate(node, "bf16", Rate::kFlopPerSecond, diagnostics);
}
std::optional<uint64_t> Duration(const YamlNode& node, Diagnostics& diagnostics) {
  return ReadDuration(node, "latency", diagnostics);
}
std::optional<std::vector<Spanned<IndexRange>>> Ranges(const YamlNode& node, Diagnostics& diagnostics) {
  return ReadRanges(node, "layers", 61, diagnostics);
}

TEST(ReadUnsigned, WholeNumbers) {
  EXPECT_EQ(Value("0", Unsigned), 0u);
  EXPECT_EQ(Value("128", Unsigned), 128u);
  EXPECT_EQ(Value("18446744073709551615", Unsigned), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(Value("1", Small), 1u);
  EXPECT_EQ(Value("1024", Small), 1024u);
}

TEST(ReadUnsigned, SaysWhyNot) {
  const auto refusal = [](const std::string& found, const std::string& why) {
    return absl::StrCat("experts: expected a whole number, found ", found,
                        why.empty() ? "" : absl::StrCat(" (", why, ")"), " [bad-integer]\n");
  };
  for (const char* word : {"no", "true", ".5", "abc", "1k", "\xd9\xa3"}) {
    EXPECT_EQ(Refusal(word, Unsigned), refusal(absl::StrCat("'", word, "'"), ""));
  }
  EXPECT_EQ(Refusal("010", Unsigned), refusal("'010'", "leading zeros are not allowed"));
  EXPECT_EQ(Refusal("00", Unsigned), refusal("'00'", "leading zeros are not allowed"));
  EXPECT_EQ(Refusal("0x40", Unsigned), refusal("'0x40'", "hex is not allowed"));
  EXPECT_EQ(Refusal("0X40", Unsigned), refusal("'0X40'", "hex is not allowed"));
  EXPECT_EQ(Refusal("0o10", Unsigned), refusal("'0o10'", "only decimal is allowed"));
  EXPECT_EQ(Refusal("0b1", Unsigned), refusal("'0b1'", "only decimal is allowed"));
  EXPECT_EQ(Refusal("-3", Unsigned), refusal("'-3'", "a sign is not allowed"));
  EXPECT_EQ(Refusal("+3", Unsigned), refusal("'+3'", "a sign is not allowed"));
  EXPECT_EQ(Refusal("1e1", Unsigned), refusal("'1e1'", "an exponent is not allowed"));
  EXPECT_EQ(Refusal("1E1", Unsigned), refusal("'1E1'", "an exponent is not allowed"));
  EXPECT_EQ(Refusal("8.0", Unsigned), refusal("'8.0'", "a fraction is not allowed"));
  EXPECT_EQ(Refusal("1_000", Unsigned), refusal("'1_000'", "digits are not grouped"));
  EXPECT_EQ(Refusal("1,000", Unsigned), refusal("'1,000'", "digits are not grouped"));
  EXPECT_EQ(Refusal("\"8\"", Unsigned), refusal("\"8\"", "a quoted string is not a number"));
  EXPECT_EQ(Refusal("'8'", Unsigned), refusal("\"8\"", "a quoted string is not a number"));
  EXPECT_EQ(Refusal("|\n  8", Unsigned), refusal("\"8\"", "a quoted string is not a number"));
  EXPECT_EQ(Refusal("8 9", Unsigned), refusal("'8 9'", ""));
  EXPECT_EQ(Refusal(std::string(99, 'x'), Unsigned), refusal("'" + std::string(60, 'x') + "...'", ""));
}

TEST(ReadUnsigned, Range) {
  const std::string due = "experts: expected a whole number from 1 to 1024, found ";
  EXPECT_EQ(Refusal("0", Small), due + "'0' [out-of-range]\n");
  EXPECT_EQ(Refusal("1025", Small), due + "'1025' [out-of-range]\n");
  EXPECT_EQ(Refusal("18446744073709551616", Small), due + "'18446744073709551616' [out-of-range]\n");
  EXPECT_EQ(Refusal("18446744073709551616", Unsigned),
            "experts: expected a whole number from 0 to 18446744073709551615, found '18446744073709551616' "
            "[out-of-range]\n");
}

TEST(WrongKind, MapsAndListsAreNotScalars) {
  EXPECT_EQ(Refusal("{a: 1}", Unsigned), "experts: expected a whole number, found a map [wrong-kind]\n");
  EXPECT_EQ(Refusal("[1]", Unsigned), "experts: expected a whole number, found a list [wrong-kind]\n");
  EXPECT_EQ(Refusal("[1]", Bool), "gated: expected true or false, found a list [wrong-kind]\n");
  EXPECT_EQ(Refusal("{}", Float), "scale: expected a finite decimal number, found a map [wrong-kind]\n");
  EXPECT_EQ(Refusal("[]", Text), "name: expected text, found a list [wrong-kind]\n");
  EXPECT_EQ(Refusal("{}", Bytes), "memory: expected a size such as 4GiB, found a map [wrong-kind]\n");
}

TEST(ReadBool, TwoSpellings) {
  EXPECT_EQ(Value("true", Bool), true);
  EXPECT_EQ(Value("false", Bool), false);
  for (const char* word : {"yes", "no", "on", "off", "True", "FALSE", "0", "1", "y"}) {
    EXPECT_EQ(Refusal(word, Bool), absl::StrCat("gated: expected true or false, found '", word, "' [bad-boolean]\n"));
  }
  EXPECT_EQ(Refusal("\"true\"", Bool),
            "gated: expected true or false, found \"true\" (a quoted string is not a boolean) [bad-boolean]\n");
}

TEST(ReadFloat, FiniteDecimals) {
  EXPECT_EQ(Value("2.5", Float), 2.5);
  EXPECT_EQ(Value("0", Float), 0.0);
  EXPECT_EQ(Value("0e0", Float), 0.0);
  EXPECT_EQ(Value("1.0e-20", Float), 1.0e-20);
  EXPECT_EQ(Value("6.103515625e-5", Float), 6.103515625e-5);
  EXPECT_EQ(Value("-1E+2", Float), -100.0);
  EXPECT_EQ(Value("1.7976931348623157e308", Float), std::numeric_limits<double>::max());
  EXPECT_TRUE(std::signbit(Value("-0.0", Float).value()));
}

TEST(ReadFloat, NothingElse) {
  for (const char* word : {".nan", ".inf", "-.inf", "nan", "inf", "infinity", "1.",  ".5",  "+1",    "01.5",
                           "1e",   "1e+",  "0x1p3", "1_0", "1,5", "1.5f",     "1 2", "--1", "1.2.3", "yes"}) {
    EXPECT_EQ(Refusal(word, Float),
              absl::StrCat("scale: expected a finite decimal number, found '", word, "' [bad-number]\n"));
  }
  EXPECT_EQ(Refusal("\"2.5\"", Float),
            "scale: expected a finite decimal number, found \"2.5\" (a quoted string is not a number) "
            "[bad-number]\n");
}

TEST(ReadFloat, Range) {
  EXPECT_EQ(Value("1e-310", Float), 1e-310);
  EXPECT_EQ(Value("4.9e-324", Float), std::numeric_limits<double>::denorm_min());
  for (const char* word : {"1e999", "-1e999", "1.8e308", "1e-999", "1e99999999999999999999"}) {
    EXPECT_EQ(Refusal(word, Float),
              absl::StrCat("scale: '", word, "' is not within the range of a 64-bit float [out-of-range]\n"));
  }
}

TEST(ReadText, AnyScalar) {
  EXPECT_EQ(Value("qwen3 moe", Text), "qwen3 moe");
  EXPECT_EQ(Value("\"model.layers.{layer}\"", Text), "model.layers.{layer}");
  EXPECT_EQ(Value("2.10", Text), "2.10");
  EXPECT_EQ(Value("no", Text), "no");
  EXPECT_EQ(Value("\"\"", Text), "");
}

TEST(ReadBytes, EveryUnit) {
  EXPECT_EQ(Value("0B", Bytes), 0u);
  EXPECT_EQ(Value("7B", Bytes), 7u);
  EXPECT_EQ(Value("227KiB", Bytes), 227u * 1024u);
  EXPECT_EQ(Value("2970MiB", Bytes), uint64_t{2970} << 20);
  EXPECT_EQ(Value("141GiB", Bytes), uint64_t{141} << 30);
  EXPECT_EQ(Value("2TiB", Bytes), uint64_t{2} << 40);
  EXPECT_EQ(Value("3KB", Bytes), 3'000u);
  EXPECT_EQ(Value("3MB", Bytes), 3'000'000u);
  EXPECT_EQ(Value("80GB", Bytes), 80'000'000'000u);
  EXPECT_EQ(Value("3TB", Bytes), 3'000'000'000'000u);
  EXPECT_EQ(Value("16777215TiB", Bytes), uint64_t{16777215} << 40);
}

TEST(ReadBytes, OneSpelling) {
  const auto refusal = [](const std::string& found, const std::string& why) {
    return absl::StrCat("memory: expected a size such as 4GiB, found ", found,
                        why.empty() ? "" : absl::StrCat(" (", why, ")"),
                        " [bad-size]\n  help: units: B KiB MiB GiB TiB KB MB GB TB\n");
  };
  EXPECT_EQ(Refusal("141", Bytes), refusal("'141'", "the unit is missing"));
  EXPECT_EQ(Refusal("141 GiB", Bytes), refusal("'141 GiB'", "no space between number and unit"));
  EXPECT_EQ(Refusal("1.5GiB", Bytes), refusal("'1.5GiB'", "only whole numbers of a unit"));
  EXPECT_EQ(Refusal("4gib", Bytes), refusal("'4gib'", "unknown unit 'gib'"));
  EXPECT_EQ(Refusal("4G", Bytes), refusal("'4G'", "unknown unit 'G'"));
  EXPECT_EQ(Refusal("4us", Bytes), refusal("'4us'", "unknown unit 'us'"));
  EXPECT_EQ(Refusal("0x4B", Bytes), refusal("'0x4B'", "unknown unit 'x4B'"));
  EXPECT_EQ(Refusal("1e3B", Bytes), refusal("'1e3B'", "unknown unit 'e3B'"));
  EXPECT_EQ(Refusal("GiB", Bytes), refusal("'GiB'", ""));
  EXPECT_EQ(Refusal("-4GiB", Bytes), refusal("'-4GiB'", ""));
  EXPECT_EQ(Refusal("04GiB", Bytes),
            "memory: expected a size such as 4GiB, found '04GiB' (leading zeros are not allowed) [bad-size]\n");
  EXPECT_EQ(Refusal("\"4GiB\"", Bytes),
            "memory: expected a size such as 4GiB, found \"4GiB\" (a quoted string is not a size) [bad-size]\n");
}

TEST(ReadBytes, NeverWraps) {
  EXPECT_EQ(Refusal("16777216TiB", Bytes),
            "memory: '16777216TiB' is more than 18446744073709551615 bytes [out-of-range]\n");
  EXPECT_EQ(Refusal("18446744073709551616B", Bytes),
            "memory: '18446744073709551616B' is more than 18446744073709551615 bytes [out-of-range]\n");
}

TEST(ReadRate, BytesAndOperations) {
  EXPECT_EQ(Value("4800GB/s", ByteRate), 4'800'000'000'000u);
  EXPECT_EQ(Value("989TFLOP/s", FlopRate), 989'000'000'000'000u);
  EXPECT_EQ(Refusal("50", ByteRate),
            "bandwidth: expected a rate such as 450GB/s, found '50' (the unit is missing) [bad-rate]\n"
            "  help: units: GB/s\n");
  EXPECT_EQ(Refusal("50GiB/s", ByteRate),
            "bandwidth: expected a rate such as 450GB/s, found '50GiB/s' (unknown unit 'GiB/s') [bad-rate]\n"
            "  help: units: GB/s\n");
  EXPECT_EQ(Refusal("450GB/s", FlopRate),
            "bf16: expected a rate such as 989TFLOP/s, found '450GB/s' (unknown unit 'GB/s') [bad-rate]\n"
            "  help: units: TFLOP/s\n");
  EXPECT_EQ(Refusal("18446744074GB/s", ByteRate),
            "bandwidth: '18446744074GB/s' is more than 18446744073709551615 bytes per second [out-of-range]\n");
  EXPECT_EQ(Refusal("18446745TFLOP/s", FlopRate),
            "bf16: '18446745TFLOP/s' is more than 18446744073709551615 operations per second [out-of-range]\n");
}

TEST(ReadDuration, Nanoseconds) {
  EXPECT_EQ(Value("7ns", Duration), 7u);
  EXPECT_EQ(Value("10us", Duration), 10'000u);
  EXPECT_EQ(Value("3ms", Duration), 3'000'000u);
  EXPECT_EQ(Value("2s", Duration), 2'000'000'000u);
  EXPECT_EQ(Refusal("3", Duration),
            "latency: expected a time such as 10us, found '3' (the unit is missing) [bad-duration]\n"
            "  help: units: ns us ms s\n");
  EXPECT_EQ(Refusal("18446744074s", Duration),
            "latency: '18446744074s' is more than 18446744073709551615 nanoseconds [out-of-range]\n");
}

TEST(ReadRanges, IndicesAndInclusiveRanges) {
  const auto ranges = Value("[0, 3-5, 60]", Ranges).value();
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_EQ(ranges[0].value, (IndexRange{0, 1}));
  EXPECT_EQ(ranges[1].value, (IndexRange{3, 6}));
  EXPECT_EQ(Place(ranges[1].span), "1:8+3");
  EXPECT_EQ(ranges[2].value, (IndexRange{60, 61}));
  EXPECT_EQ(Value("[7-7]", Ranges).value().front().value, (IndexRange{7, 8}));
  EXPECT_TRUE(Value("[]", Ranges).value().empty());
}

TEST(ReadRanges, EveryBadItemIsReported) {
  YamlDocument document("v: [1, x, 5-3, 61, 3-61, \"4\", 04, 1-, -1, 1-2-3, 18446744073709551616, [1]]");
  EXPECT_FALSE(Ranges(document.at("v"), document.diagnostics()).has_value());
  const std::string due = "layers: expected an index or a range such as 3-60, found ";
  EXPECT_EQ(document.Said(), "1:8+1: " + due + "'x' [bad-range]\n" +
                                 "1:11+3: layers: the range '5-3' ends before it begins [bad-range]\n"
                                 "1:16+2: layers: '61' is not below 61 [out-of-range]\n"
                                 "1:20+4: layers: '3-61' is not below 61 [out-of-range]\n"
                                 "1:26+3: " +
                                 due +
                                 "\"4\" (a quoted string is not a range) [bad-range]\n"
                                 "1:31+2: " +
                                 due +
                                 "'04' (leading zeros are not allowed) [bad-range]\n"
                                 "1:35+2: " +
                                 due +
                                 "'1-' [bad-range]\n"
                                 "1:39+2: " +
                                 due +
                                 "'-1' [bad-range]\n"
                                 "1:43+5: " +
                                 due +
                                 "'1-2-3' [bad-range]\n"
                                 "1:50+20: layers: '18446744073709551616' is not below 61 [out-of-range]\n"
                                 "1:72+1: " +
                                 due + "a list [wrong-kind]\n");
}

TEST(ReadRanges, OnlyLists) {
  EXPECT_EQ(Refusal("all", Ranges),
            "layers: expected a list of indices and ranges such as [0-2, 5], found 'all' [wrong-kind]\n");
}

TEST(ReadList, ItemsOrWrongKind) {
  YamlDocument document("v: [1, 2]\nw: 3\n");
  EXPECT_EQ(ReadList(document.at("v"), "nodes", document.diagnostics())->size(), 2u);
  EXPECT_EQ(ReadList(document.at("w"), "nodes", document.diagnostics()), nullptr);
  EXPECT_EQ(document.Said(), "2:4+1: nodes: expected a list, found '3' [wrong-kind]\n");
}

}  // namespace
}  // namespace meshseal::compiler
