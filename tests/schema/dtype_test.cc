#include "schema/dtype.h"

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace meshseal {
namespace {

constexpr DType kNoRow = static_cast<DType>(200);

// Plans store these values.
TEST(DTypeTest, ValuesAreForEver) {
  const std::vector<std::pair<DType, int>> values = {
      {DType::kInvalid, 0}, {DType::kF32, 1},     {DType::kF16, 2},     {DType::kBf16, 3}, {DType::kF64, 4},
      {DType::kBool, 5},    {DType::kU8, 6},      {DType::kI8, 7},      {DType::kU16, 8},  {DType::kI16, 9},
      {DType::kU32, 10},    {DType::kI32, 11},    {DType::kU64, 12},    {DType::kI64, 13}, {DType::kF8E4M3, 14},
      {DType::kF8E5M2, 15}, {DType::kF8E8M0, 16}, {DType::kF4E2M1, 17},
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
    EXPECT_EQ(DTypeFromSafetensors(row.safetensors), row.dtype);
    EXPECT_FALSE(IsRefusedSafetensorsSpelling(row.safetensors));
  }
}

TEST(DTypeTest, ValuesWithoutARowAreInvalid) {
  for (const DType dtype : {DType::kInvalid, kNoRow}) {
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

TEST(DTypeTest, OnlyTheTypesThatTheStepsReadAreWeights) {
  std::vector<std::string> weights;
  for (const DTypeRow& row : DTypeRows()) {
    EXPECT_EQ(IsWeightDType(row.dtype), row.weight);
    if (row.weight) weights.push_back(row.name);
  }
  EXPECT_EQ(weights, (std::vector<std::string>{"f32", "f16", "bf16"}));
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
  EXPECT_EQ(BytesOf(DType::kF64, (uint64_t{1} << 58) - 1), ((uint64_t{1} << 58) - 1) * 8);
  EXPECT_EQ(BytesOf(DType::kF64, uint64_t{1} << 58), std::nullopt);
  EXPECT_EQ(BytesOf(DType::kU8, std::numeric_limits<uint64_t>::max()), std::nullopt);
}

}  // namespace
}  // namespace meshseal
