#include "schema/float_bits.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace meshseal {
namespace {

uint32_t BitsOf(float value) { return std::bit_cast<uint32_t>(value); }

// IEEE 754 binary16 by its definition, in arithmetic instead of bits.
double HalfByDefinition(uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  const int exponent = (bits >> 10) & 0x1F;
  const int mantissa = bits & 0x3FF;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(FloatBitsTest, EveryHalfIsExact) {
  for (uint32_t code = 0; code <= 0xFFFF; ++code) {
    const auto bits = static_cast<uint16_t>(code);
    const float value = F16ToFloat(bits);
    EXPECT_EQ(std::signbit(value), (bits & 0x8000) != 0) << code;
    if ((bits & 0x7C00) != 0x7C00) {
      EXPECT_EQ(static_cast<double>(value), HalfByDefinition(bits)) << code;
    } else if ((bits & 0x3FF) == 0) {
      EXPECT_TRUE(std::isinf(value)) << code;
    } else {
      EXPECT_TRUE(std::isnan(value)) << code;
    }
  }
}

TEST(FloatBitsTest, EveryHalfComesBack) {
  for (uint32_t code = 0; code <= 0xFFFF; ++code) {
    const auto bits = static_cast<uint16_t>(code);
    const bool nan = (bits & 0x7FFF) > 0x7C00;
    // A signalling NaN comes back quiet.
    EXPECT_EQ(FloatToF16(F16ToFloat(bits)), nan ? bits | 0x0200 : bits) << code;
  }
}

// Of the float32 numbers between two neighbouring halves: below the middle, the middle, above it.
TEST(FloatBitsTest, HalvesAreTheNearestTiesToEven) {
  for (uint32_t code = 0; code < 0x7C00; ++code) {
    const auto lower = static_cast<uint16_t>(code);
    const auto upper = static_cast<uint16_t>(code + 1);
    const float above = upper == 0x7C00 ? 65536.0f : F16ToFloat(upper);  // what infinity stands in for
    const float middle = (F16ToFloat(lower) + above) / 2;                // exact in float32
    for (const uint32_t sign : {0u, 0x8000u}) {
      const auto rounded = [&](float value) { return FloatToF16(sign == 0 ? value : -value); };
      EXPECT_EQ(rounded(std::nextafter(middle, 0.0f)), (lower | sign)) << code;
      EXPECT_EQ(rounded(middle), ((code % 2 == 0 ? lower : upper) | sign)) << code;
      EXPECT_EQ(rounded(std::nextafter(middle, 1e6f)), (upper | sign)) << code;
    }
  }
  EXPECT_EQ(FloatToF16(std::bit_cast<float>(1u)), 0);  // the smallest float32
  EXPECT_EQ(FloatToF16(3e38f), 0x7C00);
  EXPECT_EQ(FloatToF16(-INFINITY), 0xFC00);
}

TEST(FloatBitsTest, HalfCorners) {
  EXPECT_EQ(BitsOf(F16ToFloat(0x0000)), 0x00000000u);
  EXPECT_EQ(BitsOf(F16ToFloat(0x8000)), 0x80000000u);
  EXPECT_EQ(BitsOf(F16ToFloat(0x0001)), 0x33800000u);  // 2^-24
  EXPECT_EQ(BitsOf(F16ToFloat(0x03FF)), 0x387FC000u);
  EXPECT_EQ(BitsOf(F16ToFloat(0x0400)), 0x38800000u);  // 2^-14
  EXPECT_EQ(BitsOf(F16ToFloat(0x7BFF)), 0x477FE000u);  // 65504
  EXPECT_EQ(BitsOf(F16ToFloat(0xFC00)), 0xFF800000u);
  EXPECT_EQ(BitsOf(F16ToFloat(0x7E01)), 0x7FC02000u);
}

TEST(FloatBitsTest, Bf16IsTheUpperHalf) {
  EXPECT_EQ(BitsOf(Bf16ToFloat(0x3F80)), 0x3F800000u);
  EXPECT_EQ(BitsOf(Bf16ToFloat(0x8001)), 0x80010000u);
  EXPECT_EQ(BitsOf(Bf16ToFloat(0x7FC1)), 0x7FC10000u);
}

TEST(FloatBitsTest, EveryBf16SurvivesTheRoundTrip) {
  for (uint32_t code = 0; code <= 0xFFFF; ++code) {
    const auto bits = static_cast<uint16_t>(code);
    const bool nan = (bits & 0x7FFF) > 0x7F80;
    // A signalling NaN comes back quiet.
    EXPECT_EQ(FloatToBf16(Bf16ToFloat(bits)), nan ? bits | 0x40 : bits) << code;
  }
}

TEST(FloatBitsTest, Bf16RoundsToNearestEven) {
  struct Case {
    uint32_t bits;
    uint16_t rounded;
  };
  const Case cases[] = {
      {0x3F807FFF, 0x3F80},                                              // just below the tie
      {0x3F808000, 0x3F80},                                              // tie, to even: down
      {0x3F808001, 0x3F81},                                              // just above
      {0x3F818000, 0x3F82},                                              // tie, to even: up
      {0xBF818000, 0xBF82},                                              // by magnitude
      {0x00007FFF, 0x0000}, {0x00008000, 0x0000}, {0x00008001, 0x0001},  // subnormals
      {0x80008001, 0x8001}, {0x007FFFFF, 0x0080},                        // up into the normal numbers
      {0x7F7F7FFF, 0x7F7F}, {0x7F7F8000, 0x7F80},                        // overflow to infinity
      {0xFF7FFFFF, 0xFF80}, {0x7F800000, 0x7F80}, {0xFF800000, 0xFF80},
      {0x7F800001, 0x7FC0},  // a NaN whose payload lies only in the lower half does not become infinity
      {0xFFFFFFFF, 0xFFFF}, {0x7FFFFFFF, 0x7FFF},  // nor wraps
  };
  for (const Case& c : cases) EXPECT_EQ(FloatToBf16(std::bit_cast<float>(c.bits)), c.rounded) << std::hex << c.bits;
}

}  // namespace
}  // namespace meshseal
