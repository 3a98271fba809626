#include "schema/dtype.h"

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace meshseal {
namespace {

constexpr DType kNoRow = static_cast<DType>(200);

// Plans store these values.
TEST(DTypeTest, ValuesAreForEver) {
  const std::vector<std::pair<DType, int>> values = {
      {DType::kInvalid, 0}, {DType::kF32, 1},     {DType::kF16, 2},     {DType::kBf16, 3},   {DType::kF64, 4},
      {DType::kBool, 5},    {DType::kU8, 6},      {DType::kI8, 7},      {DType::kU16, 8},    {DType::kI16, 9},
      {DType::kU32, 10},    {DType::kI32, 11},    {DType::kU64, 12},    {DType::kI64, 13},   {DType::kF8E4M3, 14},
      {DType::kF8E5M2, 15}, {DType::kF8E8M0, 16}, {DType::kF4E2M1, 17}, {DType::kMxfp4, 18}, {DType::kNvfp4, 19},
      {DType::kQ8_0, 20},   {DType::kQ4_0, 21},   {DType::kQ4K, 22},    {DType::kQ5K, 23},   {DType::kQ6K, 24},
      {DType::kQ2K, 25},    {DType::kQ3K, 26},    {DType::kIq2Xxs, 27}, {DType::kIq4Nl, 28}, {DType::kIq4Xs, 29},
      {DType::kQ4_1, 30},   {DType::kQ5_0, 31},   {DType::kQ5_1, 32},   {DType::kIq2Xs, 33}, {DType::kIq3Xxs, 34},
      {DType::kIq1S, 35},   {DType::kIq3S, 36},   {DType::kIq2S, 37},   {DType::kIq1M, 38},  {DType::kTq1_0, 39},
      {DType::kTq2_0, 40},  {DType::kQ1_0, 41},   {DType::kQ2_0, 42},
  };
  EXPECT_EQ(values.size(), DTypeRows().size() + 1);
  for (const auto& [dtype, value] : values) EXPECT_EQ(static_cast<int>(dtype), value) << DTypeName(dtype);
}

TEST(DTypeTest, NamesAndSpellingsAreUniqueAndRoundTrip) {
  std::set<std::string> names;
  for (const DTypeRow& row : DTypeRows()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(IsKnown(row.dtype));
    EXPECT_EQ(DTypeName(row.dtype), row.name);
    EXPECT_EQ(DTypeFromName(row.name), row.dtype);
    EXPECT_EQ(SafetensorsSpelling(row.dtype), row.safetensors);
    EXPECT_EQ(FindDType(row.dtype), &row);
    if (*row.safetensors != '\0') {
      EXPECT_EQ(DTypeFromSafetensors(row.safetensors), row.dtype);
    }
    EXPECT_FALSE(IsRefusedSafetensorsSpelling(row.safetensors));
  }
}

TEST(DTypeTest, ValuesWithoutARowAreInvalid) {
  for (const DType dtype : {DType::kInvalid, kNoRow}) {
    EXPECT_EQ(FindDType(dtype), nullptr);
    EXPECT_FALSE(IsKnown(dtype));
    EXPECT_FALSE(IsWeightDType(dtype));
    EXPECT_EQ(DTypeName(dtype), "invalid");
    EXPECT_EQ(SafetensorsSpelling(dtype), "");
    EXPECT_EQ(BytesOf(dtype, 8), std::nullopt);
  }
  EXPECT_EQ(DTypeFromName("invalid"), std::nullopt);
  EXPECT_EQ(DTypeFromName(""), std::nullopt);
  EXPECT_EQ(DTypeFromName("BF16"), std::nullopt);
}

TEST(DTypeTest, OnlyTheTypesThatAManifestMayNameAreWeights) {
  std::vector<std::string> weights;
  for (const DTypeRow& row : DTypeRows()) {
    EXPECT_EQ(IsWeightDType(row.dtype), row.weight);
    if (row.weight) weights.push_back(row.name);
  }
  EXPECT_EQ(weights, (std::vector<std::string>{"f32", "f16", "bf16", "f8_e4m3", "mxfp4", "nvfp4", "q8_0", "q4_0",
                                               "q4_k", "q5_k", "q6_k", "q2_k", "q3_k", "iq2_xxs", "iq4_nl", "iq4_xs"}));
}

// "id name elements bytes" of the GGUF format's types, and no others.
TEST(DTypeTest, GgufTypesHaveTheFormatsIdsAndBlocks) {
  std::vector<std::string> types;
  for (uint32_t id = 0; id < 1000; ++id) {
    const std::optional<DType> dtype = DTypeFromGguf(id);
    if (!dtype.has_value()) continue;
    const DTypeRow& row = *FindDType(*dtype);
    EXPECT_EQ(row.block_bits % 8, 0u);
    types.push_back(absl::StrCat(id, " ", row.name, " ", row.block_elements, " ", row.block_bits / 8));
  }
  EXPECT_EQ(types,
            (std::vector<std::string>{
                "0 f32 1 4",       "1 f16 1 2",       "2 q4_0 32 18",      "3 q4_1 32 20",     "6 q5_0 32 22",
                "7 q5_1 32 24",    "8 q8_0 32 34",    "10 q2_k 256 84",    "11 q3_k 256 110",  "12 q4_k 256 144",
                "13 q5_k 256 176", "14 q6_k 256 210", "16 iq2_xxs 256 66", "17 iq2_xs 256 74", "18 iq3_xxs 256 98",
                "19 iq1_s 256 50", "20 iq4_nl 32 18", "21 iq3_s 256 110",  "22 iq2_s 256 82",  "23 iq4_xs 256 136",
                "24 i8 1 1",       "25 i16 1 2",      "26 i32 1 4",        "27 i64 1 8",       "28 f64 1 8",
                "29 iq1_m 256 56", "30 bf16 1 2",     "34 tq1_0 256 54",   "35 tq2_0 256 66",  "39 mxfp4 32 17",
                "40 nvfp4 64 36",  "41 q1_0 128 18",  "42 q2_0 64 18",
            }));
  EXPECT_EQ(DTypeFromGguf(0xFFFFFFFF), std::nullopt);  // what -1 marks in the table
}

TEST(DTypeTest, PackedBitsAreWithoutScales) {
  std::vector<std::string> packed;
  for (const DTypeRow& row : DTypeRows()) {
    if (row.packed_bits != 0) packed.push_back(absl::StrCat(row.name, " ", row.packed_bits));
  }
  EXPECT_EQ(packed, (std::vector<std::string>{"f8_e4m3 8", "mxfp4 4", "nvfp4 4"}));
}

TEST(DTypeTest, ASpellingThatIsNotReadIsToldFromAnUnknownOne) {
  for (const char* refused : {"F6_E2M3", "F6_E3M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "C64"}) {
    EXPECT_EQ(DTypeFromSafetensors(refused), std::nullopt) << refused;
    EXPECT_TRUE(IsRefusedSafetensorsSpelling(refused)) << refused;
  }
  for (const char* unknown : {"f32", "F128", "FLOAT", "", "F32 ", "bf16"}) {
    EXPECT_EQ(DTypeFromSafetensors(unknown), std::nullopt) << unknown;
    EXPECT_FALSE(IsRefusedSafetensorsSpelling(unknown)) << unknown;
  }
}

TEST(DTypeTest, ElementsAreTheCheckedProduct) {
  EXPECT_EQ(ElementsOf({}), 1u);
  EXPECT_EQ(ElementsOf({3, 4, 5}), 60u);
  EXPECT_EQ(ElementsOf({3, 0, 5}), 0u);
  constexpr uint64_t k32 = uint64_t{1} << 32;
  EXPECT_EQ(ElementsOf({k32, k32 - 1}), k32 * (k32 - 1));
  EXPECT_EQ(ElementsOf({k32, k32}), std::nullopt);
  // A zero does not hide an overflow, wherever it stands.
  EXPECT_EQ(ElementsOf({0, k32, k32}), std::nullopt);
  EXPECT_EQ(ElementsOf({k32, k32, 0}), std::nullopt);
}

TEST(DTypeTest, BytesAreWholeAndChecked) {
  EXPECT_EQ(BytesOf(DType::kF32, 3), 12u);
  EXPECT_EQ(BytesOf(DType::kBf16, 3), 6u);
  EXPECT_EQ(BytesOf(DType::kBool, 3), 3u);
  EXPECT_EQ(BytesOf(DType::kF4E2M1, 4), 2u);
  EXPECT_EQ(BytesOf(DType::kF4E2M1, 3), std::nullopt);
  EXPECT_EQ(BytesOf(DType::kF64, 0), 0u);
  EXPECT_EQ(BytesOf(DType::kMxfp4, 64), 34u);
  EXPECT_EQ(BytesOf(DType::kMxfp4, 33), std::nullopt);
  EXPECT_EQ(BytesOf(DType::kQ6K, 512), 420u);
  EXPECT_EQ(BytesOf(DType::kQ6K, (uint64_t{1} << 63)), std::nullopt);
  EXPECT_EQ(BytesOf(DType::kF64, (uint64_t{1} << 58) - 1), ((uint64_t{1} << 58) - 1) * 8);
  EXPECT_EQ(BytesOf(DType::kF64, uint64_t{1} << 58), std::nullopt);
  EXPECT_EQ(BytesOf(DType::kU8, std::numeric_limits<uint64_t>::max()), std::nullopt);
}

}  // namespace
}  // namespace meshseal
