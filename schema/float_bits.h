// Conversions between the 16-bit float formats and float32. To float32 they are exact; from it they round once to
// nearest, ties to even, too large a magnitude to infinity, and a NaN to a quiet one with its sign and upper payload
// bits. All are pure bit arithmetic: they do not depend on the rounding mode, flush-to-zero or the machine. All are
// constexpr, so that device code may call them.
#ifndef MESHSEAL_SCHEMA_FLOAT_BITS_H_
#define MESHSEAL_SCHEMA_FLOAT_BITS_H_

#include <bit>
#include <cstdint>

namespace meshseal {

// bf16 is the upper half of a float32.
constexpr float Bf16ToFloat(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// IEEE binary16. Subnormals become normal floats; a NaN keeps its sign and payload.
constexpr float F16ToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1Fu;
  const uint32_t mantissa = bits & 0x3FFu;
  if (exponent == 0x1Fu) return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  if (mantissa == 0) return std::bit_cast<float>(sign);
  // mantissa * 2^-24: move its leading one to bit 10, where a float32 does not store it.
  const auto shift = static_cast<uint32_t>(std::countl_zero(mantissa)) - 21u;
  return std::bit_cast<float>(sign | ((113u - shift) << 23) | (((mantissa << shift) & 0x3FFu) << 13));
}

constexpr uint16_t FloatToF16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  const auto with_sign = [sign](uint32_t rest) { return static_cast<uint16_t>(sign | rest); };
  if (magnitude > 0x7F800000u) return with_sign(0x7E00u | ((magnitude >> 13) & 0x3FFu));
  if (magnitude >= 0x477FF000u) return with_sign(0x7C00u);  // 65520 lies half-way to 2^16
  if (magnitude >= 0x38800000u) {                           // 2^-14: normal
    return with_sign((magnitude + 0xFFFu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13);
  }
  const uint32_t shift = 126u - (magnitude >> 23);  // to multiples of 2^-24
  if (shift > 24) return sign;
  const uint32_t mantissa = (magnitude & 0x7FFFFFu) | 0x800000u;
  return with_sign((mantissa + (1u << (shift - 1)) - 1 + ((mantissa >> shift) & 1u)) >> shift);
}

constexpr uint16_t FloatToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_FLOAT_BITS_H_
