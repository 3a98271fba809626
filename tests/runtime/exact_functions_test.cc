#include "runtime/numerics/exact_functions.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/sanitized.h"

namespace meshseal::runtime {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kSmallest = std::numeric_limits<double>::denorm_min();
constexpr int kSamples = support::kSanitized ? 20000 : 200000;  // of each range

uint64_t Bits(double value) { return std::bit_cast<uint64_t>(value); }

// How far `value` is from `truth`, in units of the last place that a float64 near `truth` has.
double ErrorInUlps(double value, long double truth) {
  if (std::isinf(value)) return static_cast<long double>(std::numeric_limits<double>::max()) < std::fabs(truth) ? 0 : 9;
  const int exponent = std::max(truth == 0 ? -1074 : std::ilogb(truth) - 52, -1074);
  return static_cast<double>(std::fabs(static_cast<long double>(value) - truth) / std::ldexp(1.0L, exponent));
}

struct Range {
  double from;
  double to;
};

// The largest error over random numbers of each range, half of them uniform, half by magnitude down to 2^-1074.
template <class F, class G>
double LargestError(const std::vector<Range>& ranges, F function, G truth) {
  std::mt19937_64 random(1);
  double largest = 0;
  for (const Range& range : ranges) {
    for (int i = 0; i < kSamples; ++i) {
      const double part = static_cast<double>(random() >> 11) * 0x1p-53;
      double x = range.from + part * (range.to - range.from);
      if (i % 2 == 0) x = std::ldexp(x, -static_cast<int>(random() % (i % 4 == 0 ? 40 : 1074)));
      const double error = ErrorInUlps(function(x), truth(static_cast<long double>(x)));
      EXPECT_LT(error, 1) << x;
      largest = std::max(largest, error);
    }
  }
  return largest;
}

TEST(ExactFunctionsTest, ExpIsNearerThanOneUlp) {
  const auto truth = [](long double x) { return std::exp(x); };
  const double error =
      LargestError({{-1, 1}, {-0.36, 0.36}, {-40, 40}, {-720, 720}, {-746, -700}, {700, 710}}, ExactExp, truth);
  RecordProperty("largest", std::to_string(error));
  EXPECT_LT(error, 0.95);
}

TEST(ExactFunctionsTest, Log1pIsNearerThanOneUlp) {
  const auto truth = [](long double x) { return std::log1p(x); };
  const double error =
      LargestError({{-1, 1}, {-0.5, 0.5}, {-0.3, -0.28}, {0.40, 0.42}, {0, 100}, {0, 1e9}, {0, 1e300}, {-1, -0.999}},
                   ExactLog1p, truth);
  RecordProperty("largest", std::to_string(error));
  EXPECT_LT(error, 0.95);
}

TEST(ExactFunctionsTest, TanhIsNearerThanOneUlp) {
  const auto truth = [](long double x) { return std::tanh(x); };
  const double error =
      LargestError({{-1, 1}, {-0.2, 0.2}, {0.16, 0.18}, {-5, 5}, {-25, 25}, {18, 21}}, ExactTanh, truth);
  RecordProperty("largest", std::to_string(error));
  EXPECT_LT(error, 0.95);
}

TEST(ExactFunctionsTest, SpecialArguments) {
  EXPECT_EQ(Bits(ExactExp(0.0)), Bits(1.0));
  EXPECT_EQ(Bits(ExactExp(-0.0)), Bits(1.0));
  EXPECT_EQ(ExactExp(kSmallest), 1);
  EXPECT_EQ(ExactExp(kInf), kInf);
  EXPECT_EQ(Bits(ExactExp(-kInf)), Bits(0.0));
  EXPECT_EQ(ExactExp(709.782712893384), 1.7976931348622732e+308);
  EXPECT_EQ(ExactExp(709.7827128933841), kInf);
  EXPECT_EQ(ExactExp(1e300), kInf);
  EXPECT_EQ(ExactExp(-745.1332191019411), kSmallest);
  EXPECT_EQ(Bits(ExactExp(-745.1332191019412)), Bits(0.0));
  EXPECT_EQ(Bits(ExactExp(-1e300)), Bits(0.0));
  EXPECT_TRUE(std::isnan(ExactExp(kNan)));

  for (const double zero : {0.0, -0.0, kSmallest, -kSmallest, 1e-310, -1e-310}) {
    EXPECT_EQ(Bits(ExactLog1p(zero)), Bits(zero));
    EXPECT_EQ(Bits(ExactTanh(zero)), Bits(zero));
  }
  EXPECT_EQ(ExactLog1p(kInf), kInf);
  EXPECT_EQ(ExactLog1p(-1), -kInf);
  EXPECT_TRUE(std::isnan(ExactLog1p(-1.5)));
  EXPECT_TRUE(std::isnan(ExactLog1p(-kInf)));
  EXPECT_TRUE(std::isnan(ExactLog1p(kNan)));

  EXPECT_EQ(ExactTanh(kInf), 1);
  EXPECT_EQ(ExactTanh(-kInf), -1);
  EXPECT_EQ(ExactTanh(1e300), 1);
  EXPECT_TRUE(std::isnan(ExactTanh(kNan)));
}

// Bits that stay: of other processors, compilers and devices, too.
TEST(ExactFunctionsTest, TheBitsAreRecorded) {
  uint64_t mix = 0;
  for (int i = -3000; i <= 3000; ++i) {
    for (const double value : {ExactExp(i * 0.237), ExactLog1p(std::fabs(i) * 0.19), ExactTanh(i * 0.0071)}) {
      mix = (mix ^ Bits(value)) * 0x9E3779B97F4A7C15ull;
      mix ^= mix >> 29;
    }
  }
  EXPECT_EQ(mix, 10348529433501670261ull);
}

}  // namespace
}  // namespace meshseal::runtime
