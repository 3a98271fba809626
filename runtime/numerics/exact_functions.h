// exp, log1p and tanh of float64 that give the same bits on every machine: on hosts whatever their C library and
// processor, and on devices. They are made of operations that IEEE 754 rounds correctly (+ - * / and fma), and of bits.
//
// Errors are below 1 ulp of the result, subnormal results included. A NaN gives a NaN.
#ifndef MESHSEAL_RUNTIME_NUMERICS_EXACT_FUNCTIONS_H_
#define MESHSEAL_RUNTIME_NUMERICS_EXACT_FUNCTIONS_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "runtime/host_device.h"

namespace meshseal::runtime {

// What the functions share; nobody else's.
namespace exact_functions {

// ln 2: the upper 32 bits, of which multiples by 11-bit integers are exact, and the rest.
inline constexpr double kLn2High = 0x1.62e42feep-1;
inline constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

// 2^exponent, a normal number.
MESHSEAL_HOST_DEVICE constexpr double PowerOfTwo(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

// a + b exactly: its float64 and what that lacks. Needs |a| >= |b|.
struct TwoDoubles {
  double high;
  double low;
};
MESHSEAL_HOST_DEVICE inline TwoDoubles SumOfOrdered(double a, double b) {
  const double high = a + b;
  return {high, (a - high) + b};
}
MESHSEAL_HOST_DEVICE inline TwoDoubles SumOf(double a, double b) {
  const double high = a + b;
  const double of_b = high - a;
  return {high, (a - (high - of_b)) + (b - of_b)};
}

// exp(x) = 2^power * (1 + rest), |rest| below 0.42. Needs |x| below 2000.
struct ReducedExp {
  int power;
  TwoDoubles rest;
};
MESHSEAL_HOST_DEVICE inline ReducedExp ReduceExp(double x) {
  constexpr double kLog2E = 0x1.71547652b82fep+0;
  constexpr double kToInteger = 0x1.8p+52;  // what is added to it loses its fraction
  const double power = std::fma(x, kLog2E, kToInteger) - kToInteger;
  const double upper = std::fma(-power, kLn2High, x);  // exact
  const double r = std::fma(-power, kLn2Low, upper);   // |r| at most ln(2) / 2
  const double r_low = std::fma(-power, kLn2Low, upper - r);
  // exp(r) - 1 - r = r^2 * (1/2! + r/3! + ... + r^11/13!); the first term that is left out is below 2^-57.
  double series = 1.0 / 6227020800.0;
  series = std::fma(series, r, 1.0 / 479001600.0);
  series = std::fma(series, r, 1.0 / 39916800.0);
  series = std::fma(series, r, 1.0 / 3628800.0);
  series = std::fma(series, r, 1.0 / 362880.0);
  series = std::fma(series, r, 1.0 / 40320.0);
  series = std::fma(series, r, 1.0 / 5040.0);
  series = std::fma(series, r, 1.0 / 720.0);
  series = std::fma(series, r, 1.0 / 120.0);
  series = std::fma(series, r, 1.0 / 24.0);
  series = std::fma(series, r, 1.0 / 6.0);
  series = std::fma(series, r, 0.5);
  const TwoDoubles rest = SumOfOrdered(r, r * r * series);
  return {static_cast<int>(power), {rest.high, rest.low + r_low}};
}

// log(1 + f) - f + f^2/2 for f in [sqrt(1/2) - 1, sqrt(2) - 1].
MESHSEAL_HOST_DEVICE inline double LogRest(double f, double half_square) {
  // log(1 + f) = 2 artanh(s), s = f / (2 + f); s^2 is at most 0.0295.
  const double s = f / (2 + f);
  const double z = s * s;
  double series = 2.0 / 23.0;
  series = std::fma(series, z, 2.0 / 21.0);
  series = std::fma(series, z, 2.0 / 19.0);
  series = std::fma(series, z, 2.0 / 17.0);
  series = std::fma(series, z, 2.0 / 15.0);
  series = std::fma(series, z, 2.0 / 13.0);
  series = std::fma(series, z, 2.0 / 11.0);
  series = std::fma(series, z, 2.0 / 9.0);
  series = std::fma(series, z, 2.0 / 7.0);
  series = std::fma(series, z, 2.0 / 5.0);
  series = std::fma(series, z, 2.0 / 3.0);
  return s * std::fma(series, z, half_square);
}

}  // namespace exact_functions

MESHSEAL_HOST_DEVICE inline double ExactExp(double x) {
  using exact_functions::PowerOfTwo;
  using exact_functions::ReducedExp;
  using exact_functions::ReduceExp;
  using exact_functions::SumOfOrdered;
  using exact_functions::TwoDoubles;
  if (x != x) return x;
  if (x > 709.8) return std::numeric_limits<double>::infinity();
  if (x < -745.2) return 0;
  const ReducedExp reduced = ReduceExp(x);
  const TwoDoubles sum = SumOfOrdered(1, reduced.rest.high);
  const double value = sum.high + (sum.low + reduced.rest.low);
  // In two steps: 2^1024 is no number, and only the last one may round.
  const int first = reduced.power / 2;
  return value * PowerOfTwo(first) * PowerOfTwo(reduced.power - first);
}

MESHSEAL_HOST_DEVICE inline double ExactLog1p(double x) {
  using exact_functions::kLn2High;
  using exact_functions::kLn2Low;
  using exact_functions::LogRest;
  using exact_functions::SumOf;
  using exact_functions::SumOfOrdered;
  using exact_functions::TwoDoubles;
  constexpr double kSqrtHalf = 0x1.6a09e667f3bcdp-1;
  if (!(x > -1)) {
    return x == -1 ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  if (x == std::numeric_limits<double>::infinity()) return x;
  if (x > -0.29 && x < 0.41) {
    const double half_square = 0.5 * x * x;
    return x - (half_square - LogRest(x, half_square));
  }
  // 1 + x = 2^power * (1 + f) + low, f in [sqrt(1/2) - 1, sqrt(2) - 1].
  const TwoDoubles sum = SumOf(1, x);
  const uint64_t bits = std::bit_cast<uint64_t>(sum.high);
  int power = static_cast<int>(bits >> 52) - 1023;
  double mantissa = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFFull) | 0x3FF0000000000000ull);
  if (mantissa > 2 * kSqrtHalf) {
    mantissa *= 0.5;
    ++power;
  }
  const double f = mantissa - 1;
  const double half_square = 0.5 * f * f;
  const auto times = static_cast<double>(power);
  const TwoDoubles main = power == 0 ? TwoDoubles{f, 0} : SumOfOrdered(times * kLn2High, f);
  const double rest = std::fma(times, kLn2Low, sum.low / sum.high) - (half_square - LogRest(f, half_square));
  return main.high + (main.low + rest);
}

MESHSEAL_HOST_DEVICE inline double ExactTanh(double x) {
  using exact_functions::PowerOfTwo;
  using exact_functions::ReducedExp;
  using exact_functions::ReduceExp;
  using exact_functions::SumOf;
  using exact_functions::TwoDoubles;
  if (x != x) return x;
  const double magnitude = x < 0 ? -x : x;
  if (magnitude > 20) return x < 0 ? -1 : 1;
  // tanh = e / (e + 2) with e = exp(2 |x|) - 1, both as two doubles.
  const ReducedExp reduced = ReduceExp(2 * magnitude);
  TwoDoubles e = reduced.rest;
  if (reduced.power > 0) {
    const double scale = PowerOfTwo(reduced.power);
    e = SumOf(scale - 1, scale * reduced.rest.high);
    e.low += scale * reduced.rest.low;
  }
  TwoDoubles divisor = SumOf(e.high, 2);
  divisor.low += e.low;
  const double quotient = e.high / divisor.high;
  const double missing = std::fma(-quotient, divisor.high, e.high) + (e.low - quotient * divisor.low);
  const double value = quotient + missing / divisor.high;
  return std::bit_cast<double>((std::bit_cast<uint64_t>(value) & ~(uint64_t{1} << 63)) |
                               (std::bit_cast<uint64_t>(x) & (uint64_t{1} << 63)));
}

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_NUMERICS_EXACT_FUNCTIONS_H_
