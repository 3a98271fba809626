#include "schema/gguf.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "schema/reason.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/gguf_writer.h"

namespace meshseal {
namespace {

using support::GgufType;
using support::GgufWriter;
using support::LittleEndian;

using Ne = std::vector<uint64_t>;

constexpr uint64_t kMax64 = std::numeric_limits<uint64_t>::max();

// Parses `bytes` as the start of a file "w" of `file_size` bytes, and checks what the parser asks for.
absl::StatusOr<GgufHeader> ParseSized(absl::string_view bytes, uint64_t file_size) {
  uint64_t next = 0;
  return ParseGgufHeader(
      "w",
      [&](uint64_t offset, absl::Span<std::byte> out) {
        EXPECT_GE(offset, next) << "asked for twice";
        EXPECT_LE(out.size(), 131'072u);
        EXPECT_LE(offset + out.size(), file_size);
        next = offset + out.size();
        for (size_t i = 0; i < out.size(); ++i) {
          out[i] = offset + i < bytes.size() ? static_cast<std::byte>(bytes[offset + i]) : std::byte{0};
        }
        return absl::OkStatus();
      },
      file_size);
}

absl::StatusOr<GgufHeader> Parse(absl::string_view bytes) { return ParseSized(bytes, bytes.size()); }

// "reason-slug | text", or "accepted".
std::string VerdictOf(const absl::Status& status) {
  if (status.ok()) return "accepted";
  const std::optional<Reason> reason = ReasonOf(status);
  return absl::StrCat(reason.has_value() ? RowOf(*reason).slug : "no reason", " | ", status.message());
}

std::string Verdict(absl::string_view bytes) { return VerdictOf(Parse(bytes).status()); }

// A file of one key and one tensor; 160 bytes.
std::string Smallest() {
  return GgufWriter().Text("general.architecture", "tiny").Tensor("t", DType::kF32, {4}).Bytes();
}

std::string Patched(std::string bytes, size_t at, absl::string_view with) {
  return bytes.replace(at, with.size(), std::string(with));
}

struct Refusal {
  std::string bytes;
  std::string verdict;
};

void ExpectRefused(const std::vector<Refusal>& refusals) {
  for (size_t i = 0; i < refusals.size(); ++i)
    EXPECT_EQ(Verdict(refusals[i].bytes), refusals[i].verdict) << "row " << i;
}

TEST(GgufHeaderTest, ReadsKeysAndTensors) {
  const std::string bytes = GgufWriter()
                                .Text("general.architecture", "tiny")
                                .Alignment(64)
                                .Tensor("stack", DType::kQ8_0, {64, 3, 2})
                                .Tensor("b", DType::kBf16, {3})
                                .Bytes();
  const auto header = Parse(bytes);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->version, 3u);
  EXPECT_EQ(header->alignment, 64u);
  ASSERT_EQ(header->entries.size(), 2u);
  const TensorEntry& b = header->entries[0];
  EXPECT_EQ(b.name, "b");
  EXPECT_EQ(b.dtype, DType::kBf16);
  EXPECT_EQ(b.shape, (std::vector<uint64_t>{3}));
  const TensorEntry& stack = header->entries[1];
  EXPECT_EQ(stack.name, "stack");
  EXPECT_EQ(stack.dtype, DType::kQ8_0);
  EXPECT_EQ(stack.shape, (std::vector<uint64_t>{2, 3, 64}));  // slowest axis first
  EXPECT_EQ(stack.end - stack.begin, 12u * 34u);
  EXPECT_EQ(stack.begin % 64, 0u);
  EXPECT_EQ(b.begin, stack.begin + 448);  // 408 rounded up to 64
  EXPECT_EQ(b.end, b.begin + 6);
  EXPECT_EQ(b.begin + 64, bytes.size());
}

TEST(GgufHeaderTest, AcceptsWhatTheFormatAllows) {
  EXPECT_EQ(Verdict(Smallest()), "accepted");
  EXPECT_EQ(Verdict(GgufWriter(2).Tensor("t", DType::kF32, {4}).Bytes()), "accepted");
  EXPECT_EQ(Verdict(GgufWriter().Bytes()), "accepted");
  // The last padding may be missing, whole or in part; without tensors it is the header's.
  EXPECT_EQ(Verdict(Smallest().substr(0, 144)), "accepted");
  EXPECT_EQ(Verdict(Smallest().substr(0, 150)), "accepted");
  EXPECT_EQ(Verdict(GgufWriter().Header()), "accepted");
  EXPECT_EQ(Verdict(GgufWriter().Tensor(std::string(64, 'n'), DType::kF32, {4}).Bytes()), "accepted");
  EXPECT_EQ(Verdict(GgufWriter().Tensor("t", DType::kF32, {4, 1, 1, 1}).Bytes()), "accepted");
  EXPECT_EQ(Verdict(GgufWriter().Text(std::string(65'535, 'k'), "").Bytes()), "accepted");
  EXPECT_EQ(Verdict(GgufWriter().Text("\u00e9\u4e2d", std::string("a\0b", 3)).Bytes()), "accepted");
  EXPECT_EQ(Verdict(GgufWriter().RawArray("a", 8, 0, "").RawArray("b", 12, 0, "").Bytes()), "accepted");
  for (const uint32_t alignment : {8u, 16u, 64u, 65'536u}) {
    EXPECT_EQ(
        Verdict(GgufWriter().Alignment(alignment).Tensor("a", DType::kF32, {1}).Tensor("b", DType::kF32, {1}).Bytes()),
        "accepted")
        << alignment;
  }
}

TEST(GgufHeaderTest, ReadsEveryTypeThatATensorMayHave) {
  for (const DTypeRow& row : DTypeRows()) {
    if (row.gguf < 0) continue;
    const auto header = Parse(GgufWriter().Tensor("t", row.dtype, {row.block_elements * 2, 3}).Bytes());
    ASSERT_TRUE(header.ok()) << row.name << ": " << header.status();
    EXPECT_EQ(header->entries[0].dtype, row.dtype);
    EXPECT_EQ(header->entries[0].shape, (std::vector<uint64_t>{3, row.block_elements * 2}));
    EXPECT_EQ(header->entries[0].end - header->entries[0].begin, 6 * row.block_bits / 8);
  }
}

TEST(GgufHeaderTest, RefusesAnotherMarkOrVersion) {
  const std::string good = Smallest();
  ExpectRefused({
      {"", "weights.truncated | w: the file has 0 bytes, expected at least 24"},
      {good.substr(0, 3), "weights.truncated | w: the file has 3 bytes, expected at least 24"},
      {good.substr(0, 4), "weights.truncated | w: the file has 4 bytes, expected at least 24"},
      {good.substr(0, 23), "weights.truncated | w: the file has 23 bytes, expected at least 24"},
      {Patched(good, 0, "lmgg"), "weights.header | w: the file begins with 'lmgg', expected 'GGUF'"},
      {Patched(good, 0, "GGML"), "weights.header | w: the file begins with 'GGML', expected 'GGUF'"},
      {Patched(good, 0, "gguf"), "weights.header | w: the file begins with 'gguf', expected 'GGUF'"},
      {Patched(good, 0,
               "\xFF"
               "'\n"),
       "weights.header | w: the file begins with '\\xff\\'\\nF', expected 'GGUF'"},
      {Patched(good, 4, LittleEndian(0, 4)), "weights.header | w: the GGUF version is 0, expected 2 or 3"},
      {Patched(good, 4, LittleEndian(1, 4)), "weights.header | w: GGUF version 1 is obsolete, expected 2 or 3"},
      {Patched(good, 4, LittleEndian(4, 4)), "weights.header | w: the GGUF version is 4, expected 2 or 3"},
      {Patched(good, 4, LittleEndian(0x03000000, 4)),
       "weights.header | w: is a big-endian GGUF file, expected a little-endian one"},
      {Patched(good, 4, LittleEndian(0x02000000, 4)),
       "weights.header | w: is a big-endian GGUF file, expected a little-endian one"},
  });
}

TEST(GgufHeaderTest, CountsAreBoundedByTheFile) {
  const auto counts = [](uint64_t tensors, uint64_t keys) {
    return GgufWriter()
        .Text("general.architecture", "tiny")
        .Tensor("t", DType::kF32, {4})
        .Counts(tensors, keys)
        .Bytes();
  };
  ExpectRefused({
      // The next record is read from what follows.
      {counts(1, 2), "weights.header | w: tensor 1 of 1: the name has 0 bytes, expected 1 to 64 (at byte 82)"},
      {counts(2, 1), "weights.header | w: tensor 2 of 2: the name has 0 bytes, expected 1 to 64 (at byte 101)"},
      {counts(1, uint64_t{1} << 60),
       "weights.truncated | w: the file says that it has 1152921504606846976 keys, which "
       "160 bytes cannot hold"},
      {counts(uint64_t{1} << 62, 1),
       "weights.truncated | w: the file says that it has 4611686018427387904 tensors, "
       "which 160 bytes cannot hold"},
      {counts(kMax64, 1),
       "weights.truncated | w: the file says that it has 18446744073709551615 tensors, which 160 "
       "bytes cannot hold"},
  });
  const std::string many = counts(3'000'000'000, 1);
  EXPECT_EQ(VerdictOf(ParseSized(many, 1 << 20).status()),
            "weights.truncated | w: the file says that it has 3000000000 tensors, which 1048576 bytes cannot hold");
  EXPECT_EQ(VerdictOf(ParseSized(counts(kGgufMaxTensors + 1, 1), 1 << 30).status()),
            "weights.header | w: the file has 500001 tensors, more than the 500000 read here");
  EXPECT_EQ(VerdictOf(ParseSized(counts(1, kGgufMaxKeys + 1), 1 << 30).status()),
            "weights.header | w: the file has 65537 keys, more than the 65536 read here");
}

TEST(GgufHeaderTest, TextIsBoundedAndUtf8) {
  const auto text = [](uint64_t length, absl::string_view bytes) {
    return GgufWriter().Raw("k", 8, absl::StrCat(LittleEndian(length, 8), bytes)).Bytes();
  };
  const std::string base = text(4, "abcd");  // the length lies at byte 37, 19 bytes of padding follow
  ASSERT_EQ(base.size(), 64u);
  ExpectRefused({
      {text(kMax64, "abcd"),
       "weights.header | w: key 'k': the text has 18446744073709551615 bytes, more than the "
       "67108864 read here (at byte 37)"},
      {text(uint64_t{1} << 63, "abcd"),
       "weights.header | w: key 'k': the text has 9223372036854775808 bytes, more than "
       "the 67108864 read here (at byte 37)"},
      {text(uint64_t{1} << 30, "abcd"),
       "weights.header | w: key 'k': the text has 1073741824 bytes, more than the "
       "67108864 read here (at byte 37)"},
      {text(20, "abcd"),
       "weights.truncated | w: key 'k': the text needs 20 bytes, but the file has 19 more (at byte 45)"},
      {base.substr(0, 41),
       "weights.truncated | w: key 'k': the text's length needs 8 bytes, but the file has 4 more (at byte 37)"},
      {text(2, "\xFF\xFE"), "weights.header | w: key 'k': the text is not UTF-8 (at byte 45)"},
      {GgufWriter().Texts("k", {"good", "\xC0\xAF"}).Bytes(),
       "weights.header | w: key 'k': the text is not UTF-8 (at byte 69)"},
      {GgufWriter().RawArray("k", 8, 2, absl::StrCat(LittleEndian(1, 8), "a", LittleEndian(kMax64, 8))).Bytes(),
       "weights.header | w: key 'k': the text has 18446744073709551615 bytes, more than the 67108864 read here (at "
       "byte "
       "58)"},
  });
}

// A long text is checked in pieces; a code point may lie across any border.
TEST(GgufHeaderTest, LongTextIsCheckedInPieces) {
  for (const absl::string_view unit : {"\u00e9", "\u4e2d", "\U0001F600"}) {
    for (size_t before = 0; before < 4; ++before) {
      std::string text(before, 'a');
      while (text.size() < 300'000) absl::StrAppend(&text, unit);
      EXPECT_EQ(Verdict(GgufWriter().Text("k", text).Text("l", "end").Bytes()), "accepted");
      // The file's last text is cut inside a code point.
      text.pop_back();
      EXPECT_EQ(Verdict(GgufWriter().Text("k", text).Bytes()),
                "weights.header | w: key 'k': the text is not UTF-8 (at byte 45)");
    }
  }
  std::string damaged(200'000, 'a');
  damaged[150'000] = '\x80';
  EXPECT_EQ(Verdict(GgufWriter().Text("k", damaged).Bytes()),
            "weights.header | w: key 'k': the text is not UTF-8 (at byte 45)");
}

TEST(GgufHeaderTest, ArraysAreBounded) {
  const auto array = [](uint32_t type, uint64_t count, absl::string_view elements) {
    return GgufWriter().RawArray("k", type, count, elements).Bytes();
  };
  std::string nested = LittleEndian(0, 4) + LittleEndian(1, 8) + "x";
  for (int i = 0; i < 1000; ++i) nested = LittleEndian(9, 4) + LittleEndian(1, 8) + nested;
  ExpectRefused({
      {array(0, uint64_t{1} << 63, "abcd"),
       "weights.header | w: key 'k': the array has 9223372036854775808 entries, "
       "more than the 1073741824 read here (at byte 41)"},
      {array(8, uint64_t{1} << 61, "abcd"),
       "weights.header | w: key 'k': the array has 2305843009213693952 entries, "
       "more than the 1073741824 read here (at byte 41)"},
      {array(10, uint64_t{1} << 30, "abcd"),
       "weights.truncated | w: key 'k': the array needs 8589934592 bytes, but the file has 15 more (at byte 49)"},
      {array(8, 2, "abcd"),
       "weights.truncated | w: key 'k': the array needs 16 bytes, but the file has 15 more (at byte 49)"},
      {array(5, 4, "abcd"),
       "weights.truncated | w: key 'k': the array needs 16 bytes, but the file has 15 more (at byte 49)"},
      {array(13, 1, "abcd"), "weights.header | w: key 'k': array type 13 is not one of the format (at byte 37)"},
      {array(0xFFFFFFFF, 1, "abcd"),
       "weights.header | w: key 'k': array type 4294967295 is not one of the format (at byte 37)"},
      {GgufWriter().Raw("k", 9, nested).Bytes(),
       "weights.header | w: key 'k': is an array of arrays, which is not read (at byte 37)"},
      {array(7, 3, absl::string_view("\0\1\2", 3)),
       "weights.header | w: key 'k': a bool is 2, expected 0 or 1 (at byte 49)"},
  });
}

TEST(GgufHeaderTest, RefusesOtherTypesAndValues) {
  ExpectRefused({
      {GgufWriter().Raw("k", 13, "abcd").Bytes(),
       "weights.header | w: key 'k': value type 13 is not one of the format (at byte 33)"},
      {GgufWriter().Raw("k", 0xFFFFFFFF, "abcd").Bytes(),
       "weights.header | w: key 'k': value type 4294967295 is not one of the format (at byte 33)"},
      {GgufWriter().Raw("k", 7, "\x02").Bytes(),
       "weights.header | w: key 'k': a bool is 2, expected 0 or 1 (at byte 37)"},
      {GgufWriter().U32("k", 1).Header().substr(0, 39),
       "weights.truncated | w: key 'k': the value needs 4 bytes, but the file has 2 more (at byte 37)"},
  });
}

TEST(GgufHeaderTest, KeysAreNamesAndUnique) {
  const auto key = [](absl::string_view name) { return GgufWriter().U32(name, 1).Bytes(); };
  ExpectRefused({
      {key(""), "weights.header | w: key 1 of 1: the name has 0 bytes, expected 1 to 65535 (at byte 24)"},
      {key(absl::string_view("a\0b", 3)), "weights.header | w: key 1 of 1: the name holds a NUL (at byte 32)"},
      {key(std::string(70'000, 'k')),
       "weights.header | w: key 1 of 1: the name has 70000 bytes, expected 1 to 65535 (at byte 24)"},
      {key("\xFF\xFE"), "weights.header | w: key 1 of 1: the name is not UTF-8 (at byte 32)"},
      {Patched(key("k"), 24, LittleEndian(40, 8)),
       "weights.truncated | w: key 1 of 1: the name needs 40 bytes, but the file has 32 more (at byte 32)"},
      {GgufWriter().U32("general.alignment", 32).U32("general.alignment", 64).Bytes(),
       "weights.header | w: key 'general.alignment': occurs more than once (at byte 65)"},
  });
}

TEST(GgufHeaderTest, AlignmentIsAPowerOfTwoInBounds) {
  const std::string where = "weights.header | w: key 'general.alignment': ";
  const std::string expected = ", expected a power of two from 8 to 65536 (at byte 53)";
  for (const uint32_t alignment : {0u, 1u, 4u, 48u, 131'072u, 0x80000000u, 0xFFFFFFFFu}) {
    EXPECT_EQ(Verdict(GgufWriter().U32("general.alignment", alignment).Bytes()),
              absl::StrCat(where, "is ", alignment, expected));
  }
  EXPECT_EQ(Verdict(GgufWriter().Integer("general.alignment", GgufType::kU64, 32).Bytes()),
            where + "is u64, expected u32 (at byte 53)");
  EXPECT_EQ(Verdict(GgufWriter().Text("general.alignment", "32").Bytes()),
            where + "is text, expected u32 (at byte 61)");
  // A declared alignment counts: this file is laid out for 32.
  EXPECT_EQ(Verdict(GgufWriter()
                        .U32("general.alignment", 64)
                        .Tensor("a", DType::kF32, {1})
                        .Tensor("b", DType::kF32, {1})
                        .Bytes()),
            "weights.tensor | w: tensor 'b': the offset is 32, expected 64 behind tensor 'a' (at byte 115)");
}

// A header of one tensor that claims anything, in a file of 16 MiB.
std::string TensorVerdict(const Ne& ne, uint32_t type, uint64_t offset = 0) {
  return VerdictOf(ParseSized(GgufWriter().RawTensor("t", ne, type, offset).Header(), 1 << 24).status());
}

TEST(GgufHeaderTest, DimensionsAreBounded) {
  const std::string where = "weights.tensor | w: tensor 't': ";
  EXPECT_EQ(TensorVerdict({}, 0), where + "has 0 dimensions, expected 1 to 4 (at byte 33)");
  EXPECT_EQ(TensorVerdict({1, 1, 1, 1, 1}, 0), where + "has 5 dimensions, expected 1 to 4 (at byte 33)");
  EXPECT_EQ(Verdict(Patched(GgufWriter().Tensor("t", DType::kF32, {4}).Bytes(), 33, LittleEndian(0xFFFFFFFF, 4))),
            where + "has 4294967295 dimensions, expected 1 to 4 (at byte 33)");
  EXPECT_EQ(TensorVerdict({kMax64}, 0),
            where + "ne[0] is 18446744073709551615, expected 1 to 281474976710655 (at byte 37)");
  EXPECT_EQ(TensorVerdict({0}, 0), where + "ne[0] is 0, expected 1 to 281474976710655 (at byte 37)");
  EXPECT_EQ(TensorVerdict({4, 0}, 0), where + "ne[1] is 0, expected 1 to 281474976710655 (at byte 45)");
  EXPECT_EQ(TensorVerdict({uint64_t{1} << 48}, 0),
            where + "ne[0] is 281474976710656, expected 1 to 281474976710655 (at byte 37)");
}

TEST(GgufHeaderTest, SizesThatWrapAreRefused) {
  const std::string where = "weights.tensor | w: tensor 't': ";
  constexpr uint64_t k16 = uint64_t{1} << 16;
  constexpr uint64_t k32 = uint64_t{1} << 32;
  EXPECT_EQ(TensorVerdict({k32, k32}, 0),
            where + "shape [4294967296, 4294967296] of f32 does not fit in 64 bits (at byte 53)");
  EXPECT_EQ(TensorVerdict({k16, k16, k16, k16}, 0),
            where + "shape [65536, 65536, 65536, 65536] of f32 does not fit in 64 bits (at byte 69)");
  EXPECT_EQ(TensorVerdict({2 * k32 + 8, k32 / 2}, 0),
            where + "shape [2147483648, 8589934600] of f32 does not fit in 64 bits (at byte 53)");
  // The elements fit, their bytes do not.
  EXPECT_EQ(TensorVerdict({k32, k32 / 4}, 0),
            where + "shape [1073741824, 4294967296] of f32 does not fit in 64 bits (at byte 53)");
  EXPECT_EQ(TensorVerdict({uint64_t{1} << 47, 1 << 16}, 2),
            where + "shape [65536, 140737488355328] of q4_0 does not fit in 64 bits (at byte 53)");
  // Fifteen times 2^60 bytes, and a sixteenth tensor whose end, or whose padding alone, would wrap.
  constexpr uint64_t k28 = uint64_t{1} << 28;
  constexpr uint64_t k30 = uint64_t{1} << 30;
  for (const auto& [last, bytes] : std::vector<std::pair<Ne, std::string>>{
           {{k30, k30}, "1152921504606846976"}, {{k28 - 1, k28 + 1, 16}, "1152921504606846960"}}) {
    GgufWriter writer;
    for (uint64_t i = 0; i < 15; ++i) writer.RawTensor("t", {k30, k30}, 24, i << 60);
    EXPECT_EQ(VerdictOf(ParseSized(writer.RawTensor("t", last, 24, uint64_t{15} << 60).Header(), 1 << 24).status()),
              absl::StrCat(where, bytes, " bytes from offset 17293822569102704640 on do not fit in 64 bits (at byte ",
                           672 + 8 * (last.size() - 2), ")"));
  }
  EXPECT_EQ(TensorVerdict({uint64_t{1} << 62}, 2),
            where + "ne[0] is 4611686018427387904, expected 1 to 281474976710655 (at byte 37)");
  // A size near 2^64 that would push the next tensor to offset 0 again.
  EXPECT_EQ(
      VerdictOf(
          ParseSized(GgufWriter().RawTensor("a", {(uint64_t{1} << 62) - 1}, 0, 0).RawTensor("b", {4}, 0, 0).Header(),
                     1 << 24)
              .status()),
      "weights.tensor | w: tensor 'a': ne[0] is 4611686018427387903, expected 1 to 281474976710655 (at byte 37)");
}

TEST(GgufHeaderTest, RefusesTypesThatNoTensorHas) {
  const std::string where = "weights.tensor | w: tensor 't': ";
  for (const uint32_t removed : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u}) {
    EXPECT_EQ(TensorVerdict({256}, removed),
              absl::StrCat(where, "type ", removed, " has been removed from the format (at byte 45)"));
  }
  for (const uint32_t unknown : {43u, 100u, 0xFFFFFFFFu}) {
    EXPECT_EQ(TensorVerdict({256}, unknown), absl::StrCat(where, "type ", unknown, " is not known (at byte 45)"));
  }
  EXPECT_EQ(TensorVerdict({256}, 9), where + "type 9 (q8_1) is for activations only (at byte 45)");
  EXPECT_EQ(TensorVerdict({256}, 15), where + "type 15 (q8_k) is for activations only (at byte 45)");
}

TEST(GgufHeaderTest, RowsAreWholeBlocks) {
  EXPECT_EQ(TensorVerdict({33}, 8),
            "weights.tensor | w: tensor 't': ne[0] is 33, expected a multiple of 32 for q8_0 (at byte 45)");
  // The tensor is a whole block, its rows are not.
  EXPECT_EQ(TensorVerdict({16, 2}, 8),
            "weights.tensor | w: tensor 't': ne[0] is 16, expected a multiple of 32 for q8_0 (at byte 53)");
  EXPECT_EQ(TensorVerdict({128}, 12),
            "weights.tensor | w: tensor 't': ne[0] is 128, expected a multiple of 256 for q4_k (at byte 45)");
}

TEST(GgufHeaderTest, TensorsFillTheFile) {
  EXPECT_EQ(TensorVerdict({4}, 0, 8), "weights.tensor | w: tensor 't': the offset is 8, expected 0 (at byte 49)");
  EXPECT_EQ(TensorVerdict({4}, 0, 32), "weights.tensor | w: tensor 't': the offset is 32, expected 0 (at byte 49)");
  EXPECT_EQ(TensorVerdict({4}, 0, uint64_t{0} - 32),
            "weights.tensor | w: tensor 't': the offset is 18446744073709551584, expected 0 (at byte 49)");
  ExpectRefused({
      {GgufWriter().Tensor("a", DType::kF32, {4}).RawTensor("b", {4}, 0, 0).Bytes(),
       "weights.tensor | w: tensor 'b': the offset is 0, expected 32 behind tensor 'a' (at byte 82)"},
      {GgufWriter().Tensor("a", DType::kF32, {4}).RawTensor("b", {4}, 0, 16).Bytes(),
       "weights.tensor | w: tensor 'b': the offset is 16, expected 32 behind tensor 'a' (at byte 82)"},
      {GgufWriter().Tensor("a", DType::kF32, {4}).RawTensor("b", {4}, 0, 64).Bytes(),
       "weights.tensor | w: tensor 'b': the offset is 64, expected 32 behind tensor 'a' (at byte 82)"},
      {GgufWriter().RawTensor("t", {1024}, 0, 0).Bytes() + std::string(64, '\0'),
       "weights.truncated | w: tensor 't': needs 4096 bytes of data from byte 64 on, but the file has 128 bytes"},
      {GgufWriter().RawTensor("t", {4}, 0, 0).Header(),
       "weights.truncated | w: tensor 't': needs 16 bytes of data from byte 64 on, but the file has 57 bytes"},
      {Smallest() + "x",
       "weights.header | w: the tensors and their padding end at byte 160, but the file has 161 bytes"},
      {GgufWriter().Bytes() + "x",
       "weights.header | w: the tensors and their padding end at byte 32, but the file has 33 bytes"},
  });
}

TEST(GgufHeaderTest, TensorsHaveUniqueNames) {
  const auto named = [](absl::string_view name) { return GgufWriter().Tensor(name, DType::kF32, {4}).Bytes(); };
  ExpectRefused({
      {GgufWriter().Tensor("t", DType::kF32, {4}).Tensor("u", DType::kF32, {4}).Tensor("t", DType::kF32, {4}).Bytes(),
       "weights.header | w: tensor 't': occurs more than once"},
      {named(absl::string_view("t\0x", 3)), "weights.header | w: tensor 1 of 1: the name holds a NUL (at byte 32)"},
      {named(""), "weights.header | w: tensor 1 of 1: the name has 0 bytes, expected 1 to 64 (at byte 24)"},
      {named(std::string(65, 'n')),
       "weights.header | w: tensor 1 of 1: the name has 65 bytes, expected 1 to 64 (at byte 24)"},
      {named("\xED\xA0\x80"), "weights.header | w: tensor 1 of 1: the name is not UTF-8 (at byte 32)"},
  });
}

// Every truncation is refused but that of the last padding; every one-byte change either is, or gives entries inside
// the file.
TEST(GgufHeaderTest, NoDamageIsReadOutsideTheFile) {
  const std::string good = GgufWriter()
                               .Text("general.architecture", "tiny")
                               .Alignment(8)
                               .Integers("a", GgufType::kI16, {1, -1})
                               .Tensor("t", DType::kQ8_0, {32, 2})
                               .Tensor("u", DType::kF32, {3})
                               .Bytes();
  for (size_t size = 0; size < good.size() - 4; ++size) EXPECT_NE(Verdict(good.substr(0, size)), "accepted") << size;
  for (size_t size = good.size() - 4; size <= good.size(); ++size) EXPECT_EQ(Verdict(good.substr(0, size)), "accepted");
  for (size_t at = 0; at < good.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      std::string changed = good;
      changed[at] = static_cast<char>(value);
      auto header = Parse(changed);
      if (!header.ok()) continue;
      uint64_t end = 24;
      std::sort(header->entries.begin(), header->entries.end(),
                [](const TensorEntry& a, const TensorEntry& b) { return a.begin < b.begin; });
      for (const TensorEntry& entry : header->entries) {
        EXPECT_LE(entry.begin, entry.end);
        EXPECT_LE(entry.end, changed.size());
        EXPECT_GE(entry.begin, end);
        end = entry.end;
      }
    }
  }
}

// Quadratic work on these would take minutes.
TEST(GgufHeaderTest, ManyTensorsAndKeysTakeOnePass) {
  GgufWriter writer;
  for (int i = 0; i < 60'000; ++i) writer.U32(absl::StrCat("key.", i), 1);
  for (int i = 200'000; i-- > 0;) writer.Tensor(absl::StrCat("blk.", i), DType::kF32, {8});
  const std::string bytes = writer.Bytes();
  const auto begin = std::chrono::steady_clock::now();
  const auto header = Parse(bytes);
  const auto took = std::chrono::steady_clock::now() - begin;
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->entries.size(), 200'000u);
  EXPECT_EQ(header->metadata.Keys().size(), 60'000u);
  EXPECT_LT(took, std::chrono::seconds(10));
}

TEST(GgufHeaderTest, WhatIsKeptIsCapped) {
  GgufWriter writer;
  for (int i = 0; i < 257; ++i) writer.Text(absl::StrCat("k", i), std::string(65'536, 'x'));
  EXPECT_EQ(
      Verdict(writer.Bytes()),
      "weights.header | w: key 'k255': keys and values have more than 16777216 bytes, the most kept here (at byte "
      "16717738)");
}

TEST(GgufHeaderTest, TheHeaderIsCapped) {
  const std::string start = GgufWriter().RawArray("k", 12, uint64_t{1} << 25, "").Header();
  EXPECT_EQ(VerdictOf(ParseSized(start, uint64_t{1} << 32).status()),
            "weights.header | w: key 'k': the header has more than 268435456 bytes, the most read here (at byte 49)");
}

std::string Limits(GgufType type) { return absl::StrCat("t.", static_cast<int>(type)); }

TEST(GgufMetadataTest, ReadsEveryTypeAtItsLimits) {
  GgufWriter writer;
  const std::vector<std::tuple<GgufType, int64_t, uint64_t>> unsigneds = {
      {GgufType::kU8, 255, 255},
      {GgufType::kU16, 65'535, 65'535},
      {GgufType::kU32, 4'294'967'295, 4'294'967'295},
      {GgufType::kU64, -1, kMax64},
      {GgufType::kI8, 127, 127},
      {GgufType::kI16, 32'767, 32'767},
      {GgufType::kI32, 2'147'483'647, 2'147'483'647},
      {GgufType::kI64, 9'223'372'036'854'775'807, 9'223'372'036'854'775'807},
  };
  for (const auto& [type, written, expected] : unsigneds) writer.Integer(Limits(type), type, written);
  for (const GgufType type : {GgufType::kI8, GgufType::kI16, GgufType::kI32, GgufType::kI64}) {
    writer.Integer("minus." + Limits(type), type, -1);
  }
  writer.F32("f32", -0.5F).F64("f64", 0.1).Bool("yes", true).Bool("no", false).Text("text", "\u00e9").Text("none", "");
  writer.Integers("u8s", GgufType::kU8, {0, 255}).Integers("i64s", GgufType::kI64, {5, 6}).F32s("f32s", {0.5F, -2});
  writer.Integers("minus", GgufType::kI16, {3, -7}).Texts("texts", {"a", "bc"});
  writer.RawArray("bools", 7, 2, absl::string_view("\1\0", 2)).RawArray("f64s", 12, 0, "");
  const auto header = Parse(writer.Bytes());
  ASSERT_TRUE(header.ok()) << header.status();
  const GgufMetadata& metadata = header->metadata;
  for (const auto& [type, written, expected] : unsigneds) EXPECT_EQ(*metadata.Unsigned(Limits(type)), expected);
  EXPECT_EQ(*metadata.Number("f32"), -0.5);
  EXPECT_EQ(*metadata.Number("f64"), 0.1);
  EXPECT_EQ(*metadata.Bool("yes"), true);
  EXPECT_EQ(*metadata.Bool("no"), false);
  EXPECT_EQ(*metadata.Text("text"), "\u00e9");
  EXPECT_EQ(*metadata.Text("none"), "");
  EXPECT_EQ(*metadata.Unsigneds("u8s"), (std::vector<uint64_t>{0, 255}));
  EXPECT_EQ(*metadata.Unsigneds("i64s"), (std::vector<uint64_t>{5, 6}));
  EXPECT_EQ(*metadata.Numbers("f32s"), (std::vector<double>{0.5, -2}));
  EXPECT_EQ(*metadata.Numbers("f64s"), std::vector<double>{});
  EXPECT_EQ(metadata.TypeOf("f64"), "f64");
  EXPECT_EQ(metadata.TypeOf("texts"), "array of text");
  EXPECT_EQ(metadata.TypeOf("absent"), "");

  const std::string where = "weights.header | w: key ";
  EXPECT_EQ(VerdictOf(metadata.Unsigned("minus.t.1").status()),
            where + "'minus.t.1': is -1, expected a whole number from 0 on");
  EXPECT_EQ(VerdictOf(metadata.Unsigned("minus.t.11").status()),
            where + "'minus.t.11': is -1, expected a whole number from 0 on");
  EXPECT_EQ(VerdictOf(metadata.Unsigneds("minus").status()),
            where + "'minus': is -7 in entry 1, expected a whole number from 0 on");
  EXPECT_EQ(VerdictOf(metadata.Unsigned("f32").status()), where + "'f32': is f32, expected a whole number");
  EXPECT_EQ(VerdictOf(metadata.Unsigned("yes").status()), where + "'yes': is bool, expected a whole number");
  EXPECT_EQ(VerdictOf(metadata.Unsigned("u8s").status()), where + "'u8s': is array of u8, expected a whole number");
  EXPECT_EQ(VerdictOf(metadata.Number("t.4").status()), where + "'t.4': is u32, expected f32 or f64");
  EXPECT_EQ(VerdictOf(metadata.Bool("t.0").status()), where + "'t.0': is u8, expected bool");
  EXPECT_EQ(VerdictOf(metadata.Text("t.5").status()), where + "'t.5': is i32, expected text of at most 65536 bytes");
  EXPECT_EQ(
      VerdictOf(metadata.Unsigneds("bools").status()),
      where + "'bools': is array of bool with 2 entries, expected array of whole numbers with at most 65536 entries");
  EXPECT_EQ(VerdictOf(metadata.Unsigneds("f64s").status()),
            where + "'f64s': is array of f64, expected array of whole numbers with at most 65536 entries");
  EXPECT_EQ(
      VerdictOf(metadata.Numbers("texts").status()),
      where + "'texts': is array of text with 2 entries, expected array of f32 or f64 with at most 65536 entries");
}

TEST(GgufMetadataTest, AbsentKeysAreNothing) {
  const auto header = Parse(GgufWriter().U32("b", 1).U32("a", 2).Bytes());
  ASSERT_TRUE(header.ok()) << header.status();
  const GgufMetadata& metadata = header->metadata;
  EXPECT_EQ(metadata.Keys(), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(metadata.Has("a"));
  EXPECT_FALSE(metadata.Has("c"));
  EXPECT_EQ(*metadata.Text("c"), std::nullopt);
  EXPECT_EQ(*metadata.Unsigned("c"), std::nullopt);
  EXPECT_EQ(*metadata.Number("c"), std::nullopt);
  EXPECT_EQ(*metadata.Bool("c"), std::nullopt);
  EXPECT_EQ(*metadata.Unsigneds("c"), std::nullopt);
  EXPECT_EQ(*metadata.Numbers("c"), std::nullopt);
}

TEST(GgufMetadataTest, LongValuesAreCheckedAndNotKept) {
  const std::vector<int64_t> most(kGgufKeptArrayEntries, 1);
  const std::vector<int64_t> more(kGgufKeptArrayEntries + 1, 1);
  const auto header = Parse(GgufWriter()
                                .Text("text", std::string(kGgufKeptTextBytes, 'x'))
                                .Text("long", std::string(kGgufKeptTextBytes + 1, 'x'))
                                .Integers("most", GgufType::kU16, most)
                                .Integers("more", GgufType::kI32, more)
                                .U32("behind", 7)
                                .Bytes());
  ASSERT_TRUE(header.ok()) << header.status();
  const GgufMetadata& metadata = header->metadata;
  EXPECT_EQ((*metadata.Text("text"))->size(), kGgufKeptTextBytes);
  EXPECT_EQ((*metadata.Unsigneds("most"))->size(), kGgufKeptArrayEntries);
  EXPECT_EQ(*metadata.Unsigned("behind"), 7u);
  EXPECT_EQ(VerdictOf(metadata.Text("long").status()),
            "weights.header | w: key 'long': is text of 65537 bytes, expected text of at most 65536 bytes");
  EXPECT_EQ(
      VerdictOf(metadata.Unsigneds("more").status()),
      "weights.header | w: key 'more': is array of i32 with 65537 entries, expected array of whole numbers with at "
      "most 65536 entries");
}

std::string ReadWhole(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

void ExpectValue(const GgufMetadata& metadata, const nlohmann::json& listed) {
  const std::string key = listed["key"];
  const std::string type = listed["type"];
  const nlohmann::json& value = listed["value"];
  SCOPED_TRACE(key);
  if (type == "str") {
    EXPECT_EQ(*metadata.Text(key), value.get<std::string>());
  } else if (type == "bool") {
    EXPECT_EQ(*metadata.Bool(key), value.get<bool>());
  } else if (type == "f32" || type == "f64") {
    EXPECT_EQ(*metadata.Number(key), value.get<double>());
  } else if (type == "arr:f32") {
    EXPECT_EQ(*metadata.Numbers(key), value.get<std::vector<double>>());
  } else if (type == "arr:str" || type == "arr:bool") {
    EXPECT_EQ(metadata.TypeOf(key), type == "arr:str" ? "array of text" : "array of bool");
  } else if (type == "arr:i32") {
    EXPECT_FALSE(metadata.Unsigneds(key).ok());  // holds -1
  } else if (type.substr(0, 4) == "arr:") {
    EXPECT_EQ(*metadata.Unsigneds(key), value.get<std::vector<uint64_t>>());
  } else if (value.is_number_unsigned()) {
    EXPECT_EQ(metadata.TypeOf(key), type);
    EXPECT_EQ(*metadata.Unsigned(key), value.get<uint64_t>());
  } else {
    EXPECT_EQ(metadata.TypeOf(key), type);
    EXPECT_EQ(VerdictOf(metadata.Unsigned(key).status()).substr(0, 16), "weights.header |");  // negative
  }
}

TEST(GgufFileTest, ReadsRecordedFiles) {
  int read = 0;
  for (const auto& at : std::filesystem::recursive_directory_iterator(MESHSEAL_TEST_DATA "/containers")) {
    if (at.path().extension() != ".gguf") continue;
    SCOPED_TRACE(at.path().string());
    ++read;
    const nlohmann::json listing = nlohmann::json::parse(ReadWhole(at.path().string() + ".json"));
    const auto file = GgufFile::Open(at.path());
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->version(), listing["version"]);
    EXPECT_EQ(file->alignment(), listing["alignment"]);
    EXPECT_EQ(file->metadata().Keys().size(), listing["kv"].size());
    for (const nlohmann::json& value : listing["kv"]) ExpectValue(file->metadata(), value);
    EXPECT_EQ(file->entries().size(), listing["tensors"].size());
    for (const nlohmann::json& tensor : listing["tensors"]) {
      const auto entry = file->Find(tensor["name"].get<std::string>());
      ASSERT_TRUE(entry.ok()) << entry.status();
      EXPECT_EQ(FindDType((*entry)->dtype)->gguf, tensor["ggml_type"]);
      const auto ne = tensor["ne"].get<std::vector<uint64_t>>();
      EXPECT_EQ((*entry)->shape, std::vector<uint64_t>(ne.rbegin(), ne.rend()));
      EXPECT_EQ((*entry)->begin, tensor["file_offset"]);
      EXPECT_EQ((*entry)->end - (*entry)->begin, tensor["bytes"]);
    }
  }
  EXPECT_EQ(read, 7);
}

class GgufFileOnDiskTest : public testing::Test {
 protected:
  std::filesystem::path Write(absl::string_view bytes) const {
    std::filesystem::path path = folder_.path() / "w.gguf";
    support::WriteFile(path, bytes);
    return path;
  }

  support::TempFolder folder_;
};

TEST_F(GgufFileOnDiskTest, ReadsItsTensors) {
  auto file = GgufFile::Open(
      Write(GgufWriter().Tensor("b", DType::kI8, {3}, "\1\2\3").Tensor("a", DType::kI8, {2}, "\4\5").Bytes()));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->entries().size(), 2u);
  const auto entry = file->Find("a");
  ASSERT_TRUE(entry.ok()) << entry.status();
  const GgufFile moved = std::move(*file);
  std::vector<std::byte> out((*entry)->end - (*entry)->begin);
  ASSERT_TRUE(moved.Read((*entry)->begin, absl::MakeSpan(out)).ok());
  EXPECT_EQ(out, (std::vector<std::byte>{std::byte{4}, std::byte{5}}));
}

TEST_F(GgufFileOnDiskTest, NamesTheNearestTensor) {
  const std::filesystem::path path = Write(GgufWriter().Tensor("blk.0.ffn_gate_inp.weight", DType::kF32, {1}).Bytes());
  const auto file = GgufFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(VerdictOf(file->Find("blk.0.ffn_gate_in.weight").status()),
            absl::StrCat("weights.tensor | ", path.string(),
                         ": tensor 'blk.0.ffn_gate_in.weight': not in the file, did you mean "
                         "'blk.0.ffn_gate_inp.weight'?"));
}

TEST_F(GgufFileOnDiskTest, OpensOnlyTheFileItself) {
  const std::string folder = folder_.path().string();
  EXPECT_EQ(VerdictOf(GgufFile::Open(folder_.path() / "none.gguf").status()),
            absl::StrCat("weights.file | ", folder, "/none.gguf: cannot be opened: No such file or directory"));
  EXPECT_EQ(VerdictOf(GgufFile::Open(folder_.path()).status()),
            absl::StrCat("weights.file | ", folder, ": is a directory, expected a regular file"));
  EXPECT_EQ(VerdictOf(GgufFile::Open(Write("version https://git-lfs.github.com/spec/v1\noid sha256:00\n")).status()),
            absl::StrCat("weights.lfs-pointer | ", folder,
                         "/w.gguf: is a Git LFS pointer, not the file (run 'git lfs pull')"));
}

TEST_F(GgufFileOnDiskTest, AFileThatShrinksIsRefusedAtTheRead) {
  const std::filesystem::path path = Write(GgufWriter().Tensor("t", DType::kF32, {4}).Bytes());
  const auto file = GgufFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<std::byte> out(16);
  std::filesystem::resize_file(path, 70);
  EXPECT_EQ(
      VerdictOf(file->Read(64, absl::MakeSpan(out))),
      absl::StrCat("weights.truncated | ", path.string(), ": ends at byte 70, but had 96 bytes when it was opened"));
}

}  // namespace
}  // namespace meshseal
