// Bits and numbers inside a block; internal to runtime/formats.
#ifndef MESHSEAL_RUNTIME_FORMATS_BLOCK_BITS_H_
#define MESHSEAL_RUNTIME_FORMATS_BLOCK_BITS_H_

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "schema/float_bits.h"

namespace meshseal::runtime {

static_assert(std::endian::native == std::endian::little, "blocks are little-endian and decoded in place");

// Byte `at` of a block, as a number.
inline unsigned ByteAt(const std::byte* block, size_t at) { return std::to_integer<unsigned>(block[at]); }
inline void SetByte(std::byte* block, size_t at, unsigned value) { block[at] = static_cast<std::byte>(value); }
inline int SignedByteAt(const std::byte* block, size_t at) { return static_cast<int8_t>(ByteAt(block, at)); }

inline uint16_t HalfBits(const std::byte* block, size_t at) {
  uint16_t bits = 0;
  std::memcpy(&bits, block + at, sizeof(bits));
  return bits;
}
inline double F16At(const std::byte* block, size_t at) { return static_cast<double>(F16ToFloat(HalfBits(block, at))); }

// Writes 2^exponent, at least -24, as a half.
inline void SetHalf(std::byte* block, size_t at, int exponent) {
  const int bits = exponent >= -14 ? (exponent + 15) << 10 : 1 << (exponent + 24);
  SetByte(block, at, static_cast<unsigned>(bits) & 0xFFu);
  SetByte(block, at + 1, static_cast<unsigned>(bits) >> 8);
}

// The lower four bits of a byte, or the upper ones.
inline unsigned Nibble(unsigned byte, bool upper) { return upper ? byte >> 4 : byte & 15u; }

inline constexpr const char* kScaleNotFinite = "its scale is not finite";

inline const char* FaultOfHalf(const std::byte* block, size_t at) {
  return std::isfinite(F16At(block, at)) ? nullptr : kScaleNotFinite;
}

// Of a block with a scale and a scale of its minima.
inline const char* FaultOfHalves(const std::byte* block, size_t scale, size_t min_scale) {
  const char* const fault = FaultOfHalf(block, scale);
  return fault != nullptr ? fault : FaultOfHalf(block, min_scale);
}

// Eight scales and eight minima of six bits each, as q4_k and q5_k store them in 12 bytes.
struct ScaleAndMin {
  unsigned scale = 0;
  unsigned min = 0;
};
inline ScaleAndMin SixBits(const std::byte* packed, size_t j) {
  if (j < 4) return {ByteAt(packed, j) & 63u, ByteAt(packed, j + 4) & 63u};
  const unsigned low = ByteAt(packed, j + 4);
  return {(low & 15u) | ((ByteAt(packed, j - 4) >> 6) << 4), (low >> 4) | ((ByteAt(packed, j) >> 6) << 4)};
}

// The values of iq4_nl's and iq4_xs's codes.
inline constexpr std::array<int, 16> kNonLinear = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                   1,    13,   25,  38,  53,  69,  89,  113};

// The values of E2M1's codes.
inline constexpr std::array<double, 16> kE2M1 = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6};

// E4M3 without infinities ("FN"): 1 sign, 4 exponent and 3 mantissa bits. Code 0x7F, either sign, is NaN.
inline double E4M3(unsigned code) {
  const unsigned exponent = (code >> 3) & 15u;
  const unsigned mantissa = code & 7u;
  if (exponent == 15 && mantissa == 7) return std::nan("");
  const double value =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, static_cast<int>(exponent) - 10);
  return (code & 0x80u) != 0 ? -value : value;
}

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_FORMATS_BLOCK_BITS_H_
