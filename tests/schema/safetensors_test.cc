#include "schema/safetensors.h"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "schema/reason.h"

namespace meshseal {
namespace {

constexpr char kOneTensor[] = R"({"t":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})";

std::string Length(uint64_t n) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(n >> (8 * i));
  return bytes;
}

// A whole file around a header.
std::string FileOf(const std::string& header, size_t data_bytes) {
  return Length(header.size()) + header + std::string(data_bytes, '\x01');
}

// Parses `header` as that of a file "w" with so many bytes of data.
absl::StatusOr<std::vector<TensorEntry>> Parse(const std::string& header, uint64_t data_bytes) {
  const uint64_t data_start = 8 + header.size();
  return ParseSafetensorsHeader("w", header, data_start, data_start + data_bytes);
}

// "reason-slug | text", or "accepted".
std::string VerdictOf(const absl::Status& status) {
  if (status.ok()) return "accepted";
  const std::optional<Reason> reason = ReasonOf(status);
  return absl::StrCat(reason.has_value() ? RowOf(*reason).slug : "no reason", " | ", status.message());
}

std::string Entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return absl::StrCat(R"({"dtype":)", dtype, R"(,"shape":)", shape, R"(,"data_offsets":)", offsets, "}");
}

// The header of one tensor "t".
std::string One(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return absl::StrCat(R"({"t":)", Entry(dtype, shape, offsets), "}");
}

struct Refusal {
  std::string header;
  uint64_t data_bytes;
  std::string verdict;
};

void ExpectRefused(const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals) {
    EXPECT_EQ(VerdictOf(Parse(refusal.header, refusal.data_bytes).status()), refusal.verdict) << refusal.header;
  }
}

TEST(SafetensorsHeaderTest, ReadsEveryTensor) {
  const std::string header = R"({"__metadata__":{"format":"pt","empty":""},)"
                             R"("b":{"shape":[2,3],"data_offsets":[4,16],"dtype":"BF16"},)"
                             R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                             R"("empty":{"dtype":"I64","shape":[0,7],"data_offsets":[4,4]},)"
                             R"("f4 \"\u00e9\\":{"dtype":"F4","shape":[2,4],"data_offsets":[16,20]}}   )";
  const auto entries = Parse(header, 20);
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), 4u);
  const uint64_t start = 8 + header.size();
  const TensorEntry& a = (*entries)[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.dtype, DType::kF32);
  EXPECT_TRUE(a.shape.empty());
  EXPECT_EQ(a.begin, start);
  EXPECT_EQ(a.end, start + 4);
  const TensorEntry& b = (*entries)[1];
  EXPECT_EQ(b.name, "b");
  EXPECT_EQ(b.dtype, DType::kBf16);
  EXPECT_EQ(b.shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(b.begin, start + 4);
  EXPECT_EQ(b.end, start + 16);
  const TensorEntry& empty = (*entries)[2];
  EXPECT_EQ(empty.name, "empty");
  EXPECT_EQ(empty.begin, empty.end);
  const TensorEntry& f4 = (*entries)[3];
  EXPECT_EQ(f4.name, "f4 \"\u00e9\\");
  EXPECT_EQ(f4.end, start + 20);
}

TEST(SafetensorsHeaderTest, AcceptsWhatTheFormatAllows) {
  EXPECT_EQ(VerdictOf(Parse("{}", 0).status()), "accepted");
  EXPECT_EQ(VerdictOf(Parse("{}      ", 0).status()), "accepted");
  EXPECT_EQ(VerdictOf(Parse("{\n\t\"t\" : {\"dtype\":\"U8\",\"shape\":[ 1 ],\"data_offsets\":[0,\r1]} }", 1).status()),
            "accepted");
  EXPECT_EQ(VerdictOf(Parse(R"({"__metadata__":{}})", 0).status()), "accepted");
  EXPECT_EQ(VerdictOf(Parse(One(R"("F32")", "[1,1,1,1,1,1,1,4]", "[0,16]"), 16).status()), "accepted");
  // A surrogate pair is one character.
  EXPECT_EQ(VerdictOf(Parse(absl::StrCat(R"({"\ud83d\ude00":)", Entry(R"("U8")", "[1]", "[0,1]"), "}"), 1).status()),
            "accepted");
}

TEST(SafetensorsHeaderTest, RefusesWhatIsNotOneJsonObjectAndSpaces) {
  ExpectRefused({
      {"[]", 0, "weights.header | w: the header begins with byte 0x5b, expected '{'"},
      {"", 0, "weights.header | w: the header has 0 bytes, expected 2 to 100000000"},
      {absl::StrCat(" ", kOneTensor), 16, "weights.header | w: the header begins with byte 0x20, expected '{'"},
      {absl::StrCat("\xEF\xBB\xBF", kOneTensor), 16,
       "weights.header | w: the header begins with byte 0xef, expected '{'"},
      {absl::StrCat("\n", kOneTensor), 16, "weights.header | w: the header begins with byte 0x0a, expected '{'"},
      {absl::StrCat(kOneTensor, std::string(2, '\0')), 16,
       "weights.header | w: the header ends with byte 0x00, expected '}' and then only spaces"},
      {absl::StrCat(kOneTensor, "\t"), 16,
       "weights.header | w: the header ends with byte 0x09, expected '}' and then only spaces"},
      {absl::StrCat(kOneTensor, "\n "), 16,
       "weights.header | w: the header ends with byte 0x0a, expected '}' and then only spaces"},
      {absl::StrCat(kOneTensor, " {}"), 16,
       "weights.header | w: the header is not strict UTF-8 JSON after 'data_offsets\":[0,16]}} {' (near byte "
       "65)"},
      // nlohmann's lexer takes a NUL for the end of its input: nothing may hide behind one.
      {absl::StrCat(kOneTensor, std::string(1, '\0'), "{}"), 16,
       "weights.header | w: the header holds a NUL at byte 63"},
      {absl::StrCat("{\"t", std::string(1, '\0'), "\":1}"), 16,
       "weights.header | w: the header holds a NUL at byte 11"},
      {R"({"t":)", 0, "weights.header | w: the header ends with byte 0x3a, expected '}' and then only spaces"},
      {R"({"t":})", 0, "weights.header | w: the header is not strict UTF-8 JSON after '{\"t\":}' (near byte 14)"},
      {R"({"t":{"dtype":"F32",}})", 0,
       "weights.header | w: the header is not strict UTF-8 JSON after '{\"t\":{\"dtype\":\"F32\",}' (near "
       "byte 29)"},
      {R"({/* */"t":{}})", 0, "weights.header | w: the header is not strict UTF-8 JSON after '{/' (near byte 10)"},
      {R"({"t":NaN})", 0, "weights.header | w: the header is not strict UTF-8 JSON after '{\"t\":N' (near byte 14)"},
      {R"({'t':{}})", 0, "weights.header | w: the header is not strict UTF-8 JSON after '{\\'' (near byte 10)"},
  });
}

TEST(SafetensorsHeaderTest, RefusesDuplicateKeysAtEveryLevel) {
  const std::string byte0 = Entry(R"("U8")", "[1]", "[0,1]");
  const std::string byte1 = Entry(R"("U8")", "[1]", "[1,2]");
  ExpectRefused({
      {absl::StrCat(R"({"t":)", byte0, R"(,"u":)", byte1, R"(,"t":)", byte1, "}"), 2,
       "weights.header | w: tensor 't': occurs more than once"},
      // The same name in another spelling.
      {absl::StrCat(R"({"t":)", byte0, R"(,"\u0074":)", byte1, "}"), 2,
       "weights.header | w: tensor 't': occurs more than once"},
      {R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"dtype":"U8"}})", 1,
       "weights.header | w: tensor 't': key 'dtype' occurs more than once (near byte 67)"},
      {R"({"__metadata__":{},"__metadata__":{}})", 0,
       "weights.header | w: __metadata__: occurs more than once (near byte 41)"},
      {R"({"__metadata__":{"a":"1","b":"2","a":"1"}})", 0,
       "weights.header | w: __metadata__: key 'a' occurs more than once (near byte 49)"},
  });
}

TEST(SafetensorsHeaderTest, RefusesEntriesOfAnotherForm) {
  ExpectRefused({
      {R"({"t":null})", 0, "weights.header | w: tensor 't': found null, expected an object (near byte 17)"},
      {R"({"t":[]})", 0, "weights.header | w: tensor 't': found an array, expected an object (near byte 14)"},
      {R"({"t":"F32"})", 0,
       "weights.header | w: tensor 't': found the string 'F32', expected an object (near byte 18)"},
      {R"({"t":{}})", 0, "weights.header | w: tensor 't': 'dtype' is missing (near byte 15)"},
      {R"({"t":{"dtype":"F32","shape":[4]}})", 16,
       "weights.header | w: tensor 't': 'data_offsets' is missing (near byte 40)"},
      {R"({"t":{"shape":[4],"data_offsets":[0,16]}})", 16,
       "weights.header | w: tensor 't': 'dtype' is missing (near byte 48)"},
      {R"({"t":{"dtype":"F32","data_offsets":[0,16]}})", 16,
       "weights.header | w: tensor 't': 'shape' is missing (near byte 50)"},
      {R"({"t":{"dtype":"F32","shape":[4],"data_offsets":[0,16],"strides":[1]}})", 16,
       "weights.header | w: tensor 't': unknown key 'strides', expected 'dtype', 'shape' and 'data_offsets' "
       "(near byte 71)"},
      {R"({"t":{"dtype":{},"shape":[4],"data_offsets":[0,16]}})", 16,
       "weights.header | w: tensor 't': 'dtype' is an object, expected a string (near byte 23)"},
      {One(R"("F32")", "4", "[0,16]"), 16,
       "weights.header | w: tensor 't': 'shape' is the number 4, expected an array (near byte 38)"},
      {One(R"("F32")", "[4]", "[0]"), 16,
       "weights.header | w: tensor 't': 'data_offsets' has 1 entries, expected [begin, end] (near byte 58)"},
      {One(R"("F32")", "[4]", "[]"), 16,
       "weights.header | w: tensor 't': 'data_offsets' has 0 entries, expected [begin, end] (near byte 57)"},
      {One(R"("F32")", "[4]", "[0,16,16]"), 16,
       "weights.header | w: tensor 't': 'data_offsets' has more than 2 entries, expected [begin, end] (near "
       "byte 64)"},
      {One(R"("F32")", "[4]", R"({"begin":0})"), 16,
       "weights.header | w: tensor 't': 'data_offsets' is an object, expected an array (near byte 56)"},
  });
}

TEST(SafetensorsHeaderTest, RefusesAnythingButPlainDigits) {
  const std::string expected = ", expected plain digits up to 281474976710655 (near byte ";
  for (const auto& [number, found] : std::vector<std::pair<std::string, std::string>>{
           {"-1", "a signed number"},
           {"-0", "a signed number"},
           {"1.0", "the number '1.0'"},
           {"1e1", "the number '1e1'"},
           {"1E400", ""},
           {"00016", ""},
           {"0x10", ""},
           {"+1", ""},
           {"18446744073709551616", "the number '18446744073709551616'"},
           {"18446744073709551615", "the number 18446744073709551615"},
           {"281474976710656", "the number 281474976710656"},
           {R"("16")", "the string '16'"},
           {"true", "true"},
           {"false", "false"},
           {"null", "null"},
           {"{}", "an object"},
           {"[1]", "an array"},
       }) {
    for (const std::string field : {"shape", "data_offsets"}) {
      const std::string header = field == "shape" ? One(R"("U8")", "[" + number + "]", "[0,16]")
                                                  : One(R"("U8")", "[16]", "[0," + number + "]");
      const std::string verdict = VerdictOf(Parse(header, 16).status());
      const std::string start =
          found.empty() ? "weights.header | w: the header is not strict UTF-8 JSON after '"
                        : absl::StrCat("weights.header | w: tensor 't': '", field, "' holds ", found, expected);
      EXPECT_EQ(verdict.substr(0, start.size()), start) << header;
    }
  }
  EXPECT_EQ(VerdictOf(Parse(One(R"("F32")", "[00016]", "[0,64]"), 64).status()),
            "weights.header | w: the header is not strict UTF-8 JSON after 'type\":\"F32\",\"shape\":[000' "
            "(near byte 40)");
  EXPECT_EQ(VerdictOf(Parse(One(R"("F32")", "[1.0]", "[0,4]"), 4).status()),
            "weights.header | w: tensor 't': 'shape' holds the number '1.0', expected plain digits up to "
            "281474976710655 (near byte 41)");
  EXPECT_EQ(VerdictOf(Parse(One(R"("U8")", "[281474976710655]", "[0,281474976710655]"), 281474976710655).status()),
            "accepted");
}

TEST(SafetensorsHeaderTest, TellsUnsupportedTypesFromUnknownOnes) {
  const auto with = [](const std::string& dtype) { return One(dtype, "[4]", "[0,16]"); };
  ExpectRefused({
      {with(R"("f32")"), 16, "weights.header | w: tensor 't': dtype 'f32' is not one of the format (near byte 27)"},
      {with(R"("F128")"), 16, "weights.header | w: tensor 't': dtype 'F128' is not one of the format (near byte 28)"},
      {with(R"("FLOAT")"), 16, "weights.header | w: tensor 't': dtype 'FLOAT' is not one of the format (near byte 29)"},
      {with(R"("")"), 16, "weights.header | w: tensor 't': dtype '' is not one of the format (near byte 24)"},
      {with("5"), 16, "weights.header | w: tensor 't': 'dtype' is the number 5, expected a string (near byte 24)"},
      {with(R"(["F32"])"), 16, "weights.header | w: tensor 't': 'dtype' is an array, expected a string (near byte 23)"},
      {with(R"("F6_E2M3")"), 16,
       "weights.tensor | w: tensor 't': dtype 'F6_E2M3' is not supported by this version (near byte 31)"},
      {with(R"("C64")"), 16,
       "weights.tensor | w: tensor 't': dtype 'C64' is not supported by this version (near byte 27)"},
  });
}

TEST(SafetensorsHeaderTest, RefusesShapesWhoseSizeWrapsOrIsNotWhole) {
  ExpectRefused({
      {One(R"("F32")", "[4294967296,4294967296]", "[0,0]"), 0,
       "weights.tensor | w: tensor 't': shape [4294967296, 4294967296] of F32 does not fit in 64 bits (near "
       "byte 81)"},
      {One(R"("F64")", "[1048576,4398046511104]", "[0,0]"), 0,
       "weights.tensor | w: tensor 't': shape [1048576, 4398046511104] of F64 is not a whole number of bytes "
       "or does not fit in 64 bits (near byte 81)"},
      {One(R"("F32")", "[0,4294967296,4294967296]", "[0,0]"), 0,
       "weights.tensor | w: tensor 't': shape [0, 4294967296, 4294967296] of F32 does not fit in 64 bits "
       "(near byte 83)"},
      {One(R"("F4")", "[3]", "[0,2]"), 2,
       "weights.tensor | w: tensor 't': shape [3] of F4 is not a whole number of bytes or does not fit in 64 "
       "bits (near byte 60)"},
      {One(R"("F32")", "[1,1,1,1,1,1,1,1,4]", "[0,16]"), 16,
       "weights.tensor | w: tensor 't': 'shape' has more than 8 entries, the most read here (near byte 55)"},
      {One(R"("F32")", "[1000,1000]", "[0,16]"), 16,
       "weights.tensor | w: tensor 't': data_offsets [0, 16] span 16 bytes, expected 4000000 for shape "
       "[1000, 1000] of F32 (near byte 70)"},
      {One(R"("F32")", "[4]", "[0,0]"), 0,
       "weights.tensor | w: tensor 't': data_offsets [0, 0] span 0 bytes, expected 16 for shape [4] of F32 "
       "(near byte 61)"},
      {One(R"("F32")", "[]", "[0,0]"), 0,
       "weights.tensor | w: tensor 't': data_offsets [0, 0] span 0 bytes, expected 4 for shape [] of F32 "
       "(near byte 60)"},
      {One(R"("F32")", "[4]", "[16,0]"), 16,
       "weights.tensor | w: tensor 't': data_offsets [16, 0] end before they begin (near byte 62)"},
  });
}

TEST(SafetensorsHeaderTest, TensorsTileTheData) {
  const auto two = [](const std::string& a, const std::string& b) {
    return absl::StrCat(R"({"a":)", Entry(R"("F32")", "[4]", a), R"(,"b":)", Entry(R"("F32")", "[4]", b), "}");
  };
  EXPECT_EQ(VerdictOf(Parse(two("[16,32]", "[0,16]"), 32).status()), "accepted");
  ExpectRefused({
      {two("[0,16]", "[8,24]"), 24,
       "weights.tensor | w: tensor 'b': data_offsets begin at 8, expected 16, where tensor 'a' ends (an "
       "overlap)"},
      {two("[0,16]", "[0,16]"), 16,
       "weights.tensor | w: tensor 'b': data_offsets begin at 0, expected 16, where tensor 'a' ends (an "
       "overlap)"},
      {two("[0,16]", "[24,40]"), 40,
       "weights.tensor | w: tensor 'b': data_offsets begin at 24, expected 16, where tensor 'a' ends (a "
       "hole)"},
      {One(R"("F32")", "[4]", "[8,24]"), 24,
       "weights.tensor | w: tensor 't': data_offsets begin at 8, expected 0 (a hole)"},
      {kOneTensor, 17, "weights.header | w: the tensors end at byte 79, but the file has 80 bytes"},
      {"{}", 1, "weights.header | w: the tensors end at byte 10, but the file has 11 bytes"},
      {kOneTensor, 15,
       "weights.truncated | w: tensor 't': needs 16 bytes of data from byte 63 on, but the file has 78 "
       "bytes"},
      {One(R"("F32")", "[1000,1000]", "[0,4000000]"), 16,
       "weights.truncated | w: tensor 't': needs 4000000 bytes of data from byte 76 on, but the file has 92 "
       "bytes"},
  });
}

TEST(SafetensorsHeaderTest, MetadataIsStringsOnlyAndBounded) {
  ExpectRefused({
      {R"({"__metadata__":{"k":1}})", 0,
       "weights.header | w: __metadata__: 'k' is the number 1, expected a string (near byte 31)"},
      {R"({"__metadata__":{"k":{"x":"y"}}})", 0,
       "weights.header | w: __metadata__: 'k' is an object, expected a string (near byte 30)"},
      {R"({"__metadata__":{"k":["x"]}})", 0,
       "weights.header | w: __metadata__: 'k' is an array, expected a string (near byte 30)"},
      {R"({"__metadata__":{"k":null}})", 0,
       "weights.header | w: __metadata__: 'k' is null, expected a string (near byte 33)"},
      {R"({"__metadata__":"k"})", 0,
       "weights.header | w: __metadata__: found the string 'k', expected an object (near byte 27)"},
      {absl::StrCat(R"({"__metadata__":)", Entry(R"("U8")", "[1]", "[0,1]"), "}"), 1,
       "weights.header | w: __metadata__: 'shape' is an array, expected a string (near byte 47)"},
  });
  const auto with = [](uint64_t bytes) {
    return absl::StrCat(R"({"__metadata__":{"k":")", std::string(bytes, 'x'), "\"}}");
  };
  EXPECT_EQ(VerdictOf(Parse(with(kSafetensorsMaxMetadataBytes - 1), 0).status()), "accepted");
  EXPECT_EQ(VerdictOf(Parse(with(kSafetensorsMaxMetadataBytes), 0).status()),
            "weights.header | w: __metadata__: more than 16777216 bytes, the most read here (near byte 16777247)");
}

TEST(SafetensorsHeaderTest, NamesAreUtf8WithoutNul) {
  const auto named = [](const std::string& name) {
    return absl::StrCat("{\"", name, "\":", Entry(R"("U8")", "[1]", "[0,1]"), "}");
  };
  EXPECT_EQ(VerdictOf(Parse(named("\u00e9\u4e2d"), 1).status()), "accepted");
  ExpectRefused({
      {named(""), 1, "weights.header | w: tensor '': the name is empty (near byte 11)"},
      {named("a\\u0000b"), 1, "weights.header | w: tensor 'a\\000b': the name holds a NUL (near byte 19)"},
      {named("\\ud800"), 1,
       "weights.header | w: the header is not strict UTF-8 JSON after '{\"\\\\ud800\"' (near byte 17)"},
      {named("\\udc00\\ud800"), 1,
       "weights.header | w: the header is not strict UTF-8 JSON after '{\"\\\\udc00' (near byte 16)"},
      {named("\xFF\xFE"), 1, "weights.header | w: the header is not strict UTF-8 JSON after '{\"\\377' (near byte 11)"},
      // Overlong, a surrogate, above U+10FFFF.
      {named("\xC0\xAF"), 1, "weights.header | w: the header is not strict UTF-8 JSON after '{\"\\300' (near byte 11)"},
      {named("\xED\xA0\x80"), 1,
       "weights.header | w: the header is not strict UTF-8 JSON after '{\"\\355\\240' (near byte 12)"},
      {named("\xF4\x90\x80\x80"), 1,
       "weights.header | w: the header is not strict UTF-8 JSON after '{\"\\364\\220' (near byte 12)"},
      {named("line\nfeed"), 1,
       "weights.header | w: the header is not strict UTF-8 JSON after '{\"line\\n' (near byte 15)"},
  });
}

TEST(SafetensorsHeaderTest, MessagesEscapeAndCutNames) {
  EXPECT_EQ(VerdictOf(Parse(R"({"a\n'\u001b":null})", 0).status()),
            "weights.header | w: tensor 'a\\n\\'\\033': found null, expected an object (near byte 26)");
  const std::string verdict =
      VerdictOf(Parse(absl::StrCat("{\"", std::string(119, 'x'), "\u00e9\":null}"), 0).status());
  EXPECT_EQ(verdict, absl::StrCat("weights.header | w: tensor '", std::string(119, 'x'),
                                  "...': found null, expected an object (near byte 137)"));
}

TEST(SafetensorsHeaderTest, DeepNestingEndsAtTheFirstBracketTooMany) {
  EXPECT_EQ(
      VerdictOf(Parse(absl::StrCat(R"({"t":{"dtype":"U8","shape":)", std::string(100'000, '['), "}"), 0).status()),
      "weights.header | w: tensor 't': 'shape' holds an array, expected plain digits up to 281474976710655 "
      "(near byte 37)");
  EXPECT_EQ(VerdictOf(Parse(absl::StrCat(R"({"t":{"dtype":)", std::string(100'000, '['), "}"), 0).status()),
            "weights.header | w: tensor 't': 'dtype' is an array, expected a string (near byte 23)");
}

std::string ReverseOrderHeader(int tensors) {
  std::string header = "{";
  for (int i = 0; i < tensors; ++i) {
    const int at = tensors - 1 - i;
    absl::StrAppend(&header, i == 0 ? "" : ",", "\"", i, R"(":{"dtype":"U8","shape":[1],"data_offsets":[)", at, ",",
                    at + 1, "]}");
  }
  return header + "}";
}

// Quadratic work on 100,000 tensors would take minutes.
TEST(SafetensorsHeaderTest, ManyTensorsTakeOnePass) {
  const std::string header = ReverseOrderHeader(100'000);
  const auto begin = std::chrono::steady_clock::now();
  const auto entries = Parse(header, 100'000);
  const auto took = std::chrono::steady_clock::now() - begin;
  ASSERT_TRUE(entries.ok()) << entries.status();
  EXPECT_EQ(entries->size(), 100'000u);
  EXPECT_LT(took, std::chrono::seconds(10));
}

TEST(SafetensorsHeaderTest, TheNumberOfTensorsIsCapped) {
  std::string header = "{";
  for (uint64_t i = 0; i <= kSafetensorsMaxTensors; ++i) {
    absl::StrAppend(&header, i == 0 ? "" : ",", "\"", i, R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})");
  }
  EXPECT_EQ(VerdictOf(Parse(header + "}", 0).status()),
            "weights.header | w: tensor '500000': one more than 500000 tensors, the most read here (near "
            "byte 28388907)");
}

class SafetensorsFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "safetensors-XXXXXX";
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path Write(const std::string& bytes) const {
    std::filesystem::path path = folder_ / "w.safetensors";
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  // The verdict on `path` without the folder's name.
  std::string OpenVerdict(const std::filesystem::path& path) const {
    std::string verdict = VerdictOf(SafetensorsFile::Open(path).status());
    const std::string folder = folder_.string() + "/";
    for (size_t at = verdict.find(folder); at != std::string::npos; at = verdict.find(folder)) {
      verdict.erase(at, folder.size());
    }
    return verdict;
  }

  std::filesystem::path folder_;
};

TEST_F(SafetensorsFileTest, ReadsItsTensors) {
  const std::string header = R"({"b":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                             R"("a":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})";
  auto file = SafetensorsFile::Open(Write(Length(header.size()) + header + "\x01\x02\x03\x04\x05"));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->entries().size(), 2u);
  EXPECT_EQ(file->entries()[0].name, "a");
  const auto entry = file->Find("a");
  ASSERT_TRUE(entry.ok()) << entry.status();
  SafetensorsFile moved = std::move(*file);
  std::vector<std::byte> out((*entry)->end - (*entry)->begin);
  ASSERT_TRUE(moved.Read((*entry)->begin, absl::MakeSpan(out)).ok());
  EXPECT_EQ(out, (std::vector<std::byte>{std::byte{4}, std::byte{5}}));
}

TEST_F(SafetensorsFileTest, NamesTheNearestTensor) {
  const std::string header = R"({"mlp.gate.weight":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  const std::filesystem::path path = Write(FileOf(header, 1));
  const auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(VerdictOf(file->Find("mlp.gate.wieght").status()),
            absl::StrCat("weights.tensor | ", path.string(),
                         ": tensor 'mlp.gate.wieght': not in the file, did you mean 'mlp.gate.weight'?"));
  EXPECT_EQ(VerdictOf(file->Find("x").status()),
            absl::StrCat("weights.tensor | ", path.string(), ": tensor 'x': not in the file"));
}

// An unaligned tensor is legal: N = 61, the floats begin at byte 69.
TEST_F(SafetensorsFileTest, ReadsUnalignedTensors) {
  std::string header = kOneTensor;
  header.resize(61, ' ');
  const std::string data = "0123456789abcdef";
  const auto file = SafetensorsFile::Open(Write(absl::StrCat(Length(61), header, data)));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->entries()[0].begin, 69u);
  std::string read(16, '\0');
  ASSERT_TRUE(file->Read(69, absl::MakeSpan(reinterpret_cast<std::byte*>(read.data()), read.size())).ok());
  EXPECT_EQ(read, data);
}

TEST_F(SafetensorsFileTest, RefusesBadLengths) {
  const std::string header = kOneTensor;
  const auto with = [&](uint64_t n) { return OpenVerdict(Write(Length(n) + header + std::string(16, '\0'))); };
  EXPECT_EQ(OpenVerdict(Write("")), "weights.truncated | w.safetensors: the file has 0 bytes, expected at least 10");
  EXPECT_EQ(OpenVerdict(Write(std::string(7, '\0'))),
            "weights.truncated | w.safetensors: the file has 7 bytes, expected at least 10");
  EXPECT_EQ(OpenVerdict(Write(Length(2) + "{")),
            "weights.truncated | w.safetensors: the file has 9 bytes, expected at least 10");
  EXPECT_EQ(OpenVerdict(Write(Length(2) + "[]")),
            "weights.header | w.safetensors: the header begins with byte 0x5b, expected '{'");
  EXPECT_EQ(OpenVerdict(Write(Length(2) + "{}")), "accepted");
  EXPECT_EQ(with(0), "weights.header | w.safetensors: the header length is 0, expected 2 to 100000000");
  EXPECT_EQ(with(1), "weights.header | w.safetensors: the header length is 1, expected 2 to 100000000");
  // One past the end.
  EXPECT_EQ(with(8 + header.size() + 16 - 7),
            "weights.truncated | w.safetensors: the header ends at byte 80, but the file has 79 bytes");
  EXPECT_EQ(with(uint64_t{1} << 63),
            "weights.header | w.safetensors: the header length is 9223372036854775808, expected 2 to 100000000");
  // 8 + N wraps to 0.
  EXPECT_EQ(with(~uint64_t{7}),
            "weights.header | w.safetensors: the header length is 18446744073709551608, expected 2 to "
            "100000000");
}

TEST_F(SafetensorsFileTest, TheHeaderLimitHoldsForSparseFiles) {
  const std::filesystem::path path = Write(Length(kSafetensorsMaxHeaderBytes + 1) + "{}");
  std::filesystem::resize_file(path, 200'000'000);
  EXPECT_EQ(OpenVerdict(path),
            "weights.header | w.safetensors: the header length is 100000001, expected 2 to 100000000");
}

TEST_F(SafetensorsFileTest, RefusesWhatIsNotARegularFile) {
  EXPECT_EQ(OpenVerdict(folder_ / "absent"), "weights.file | absent: cannot be opened: No such file or directory");
  EXPECT_EQ(OpenVerdict(folder_),
            absl::StrCat("weights.file | ", folder_.string(), ": is a directory, expected a regular file"));
  EXPECT_EQ(OpenVerdict("/dev/zero"), "weights.file | /dev/zero: is a device, expected a regular file");
  // Opening does not wait for a writer.
  const std::filesystem::path fifo = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(OpenVerdict(fifo), "weights.file | fifo: is a FIFO, expected a regular file");
  const std::filesystem::path link = folder_ / "link";
  std::filesystem::create_symlink(Write(FileOf("{}", 0)), link);
  EXPECT_EQ(OpenVerdict(link), "weights.file | link: is a symbolic link, expected a regular file");
}

TEST_F(SafetensorsFileTest, NamesALfsPointer) {
  EXPECT_EQ(OpenVerdict(Write("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")),
            "weights.lfs-pointer | w.safetensors: is a Git LFS pointer, not the file (run 'git lfs pull')");
}

TEST_F(SafetensorsFileTest, AFileThatShrinksIsRefusedAtTheRead) {
  const std::filesystem::path path = Write(FileOf(kOneTensor, 16));
  const auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  const TensorEntry& entry = file->entries()[0];
  std::vector<std::byte> out(16);
  EXPECT_TRUE(file->Read(entry.begin, absl::MakeSpan(out)).ok());
  std::filesystem::resize_file(path, entry.begin + 6);
  EXPECT_EQ(VerdictOf(file->Read(entry.begin, absl::MakeSpan(out))),
            absl::StrCat("weights.truncated | ", path.string(), ": ends at byte ", entry.begin + 6, ", but had ",
                         entry.begin + 16, " bytes when it was opened"));
}

TEST_F(SafetensorsFileTest, ReadsOnlyInsideTheFile) {
  const std::filesystem::path path = Write(FileOf(kOneTensor, 16));
  const auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  const uint64_t size = file->entries()[0].end;
  std::vector<std::byte> out(2);
  EXPECT_EQ(VerdictOf(file->Read(size - 1, absl::MakeSpan(out))),
            absl::StrCat("weights.truncated | ", path.string(), ": 2 bytes asked for at byte ", size - 1,
                         ", but the file has ", size, " bytes"));
  EXPECT_EQ(VerdictOf(file->Read(~uint64_t{0}, absl::MakeSpan(out))),
            absl::StrCat("weights.truncated | ", path.string(),
                         ": 2 bytes asked for at byte 18446744073709551615, but the file has ", size, " bytes"));
}

// Every truncation of a valid file is refused; every one-byte change either is, or gives entries inside the
// file.
TEST_F(SafetensorsFileTest, NoDamageIsReadOutsideTheFile) {
  const std::string good = FileOf(kOneTensor, 16);
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_NE(OpenVerdict(Write(good.substr(0, size))), "accepted") << size;
  }
  const std::string header = kOneTensor;
  for (size_t at = 0; at < header.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string changed = header;
      changed[at] = static_cast<char>(value);
      const auto entries = Parse(changed, 16);
      if (!entries.ok()) continue;
      ASSERT_EQ(entries->size(), 1u);
      EXPECT_EQ((*entries)[0].begin, 8 + header.size());
      EXPECT_EQ((*entries)[0].end, 8 + header.size() + 16);
    }
  }
}

}  // namespace
}  // namespace meshseal
