// The formats that operands and outputs are rounded to, by their definitions.
#include "runtime/backend/basis.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "schema/float_bits.h"

namespace meshseal::runtime {
namespace {

std::vector<float> Rounded(Basis basis, std::vector<float> row) {
  ToBasis(basis, absl::MakeSpan(row));
  return row;
}

TEST(ToBasisTest, FloatsAreRoundedOneByOne) {
  const float value = 1 + 0x1p-8f + 0x1p-11f;
  EXPECT_EQ(Rounded(Basis::kF32, {value}), std::vector<float>{value});
  EXPECT_EQ(Rounded(Basis::kBf16, {value, 1 + 0x1p-8f}), (std::vector<float>{1 + 0x1p-7f, 1}));  // a tie goes to even
  EXPECT_EQ(Rounded(Basis::kF16, {value, 70000}), (std::vector<float>{1 + 0x1p-8f, INFINITY}));
}

// Two blocks and a short one; each has a scale of its own.
TEST(ToBasisTest, Q8IsBlockByBlock) {
  std::vector<float> row(70, 0);
  row[0] = 127;  // scale 1
  row[1] = 2.5f;
  row[2] = -2.5f;
  row[3] = 0.49f;
  row[40] = -0.1f;  // scale 0.1 / 127, which f16 does not hold
  row[41] = 0.05f;
  row[69] = 1e-9f;  // of a scale that f16 has no number for
  const std::vector<float> rounded = Rounded(Basis::kQ8, row);
  EXPECT_EQ(rounded[0], 127);
  EXPECT_EQ(rounded[1], 3);  // half away from zero
  EXPECT_EQ(rounded[2], -3);
  EXPECT_EQ(rounded[3], 0);
  const float scale = F16ToFloat(FloatToF16(0.1f / 127));
  EXPECT_NE(scale, 0.1f / 127);
  EXPECT_EQ(rounded[40], -127 * scale);
  EXPECT_EQ(rounded[41], 64 * scale);  // 63.5 of the scale before it is stored
  EXPECT_EQ(rounded[69], 0);
}

TEST(ToBasisTest, Q8KeepsWhatIsNotFinite) {
  EXPECT_TRUE(std::isnan(Rounded(Basis::kQ8, {NAN, 1})[0]));
  EXPECT_EQ(Rounded(Basis::kQ8, {NAN, 127})[1], 127);
  EXPECT_TRUE(std::isnan(Rounded(Basis::kQ8, {NAN, 0})[0]));
  for (const float value : Rounded(Basis::kQ8, {INFINITY, 1})) EXPECT_TRUE(std::isnan(value));
}

}  // namespace
}  // namespace meshseal::runtime
