// 64-bit arithmetic that reports overflow instead of wrapping. Sizes and counts read from a file go through it.
#ifndef MESHSEAL_SCHEMA_CHECKED_MATH_H_
#define MESHSEAL_SCHEMA_CHECKED_MATH_H_

#include <cstdint>
#include <optional>

namespace meshseal {

// a + b, or nothing when it does not fit in 64 bits.
inline std::optional<uint64_t> CheckedAdd(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

// a * b, or nothing when it does not fit in 64 bits.
inline std::optional<uint64_t> CheckedMul(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// Rounded up; `b` is not 0.
constexpr uint64_t CeilDiv(uint64_t a, uint64_t b) { return a / b + (a % b == 0 ? 0 : 1); }

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_CHECKED_MATH_H_
