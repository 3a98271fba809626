// How one element is rounded to a basis, for host and device. basis.h rounds whole rows.
#ifndef MESHSEAL_RUNTIME_BACKEND_BASIS_ROUNDING_H_
#define MESHSEAL_RUNTIME_BACKEND_BASIS_ROUNDING_H_

#include <bit>
#include <cmath>
#include <cstdint>

#include "runtime/host_device.h"
#include "schema/float_bits.h"
#include "schema/vocabularies.h"

namespace meshseal::runtime {

// The float16 nearest to `value`, ties to even; too large a magnitude gives infinity, a NaN stays one.
constexpr uint16_t FloatToF16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  uint32_t rest = 0;
  if (magnitude > 0x7F800000u) {
    rest = 0x7E00u | ((magnitude >> 13) & 0x3FFu);
  } else if (magnitude >= 0x477FF000u) {  // 65520 lies half-way to 2^16
    rest = 0x7C00u;
  } else if (magnitude >= 0x38800000u) {  // 2^-14: normal
    rest = (magnitude + 0xFFFu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  } else if (const uint32_t shift = 126u - (magnitude >> 23); shift <= 24) {  // to multiples of 2^-24
    const uint32_t mantissa = (magnitude & 0x7FFFFFu) | 0x800000u;
    rest = (mantissa + (1u << (shift - 1)) - 1 + ((mantissa >> shift) & 1u)) >> shift;
  }
  return static_cast<uint16_t>(sign | rest);
}

// Of a basis that rounds every element for itself: all but q8.
MESHSEAL_HOST_DEVICE inline float RoundedTo(Basis basis, float value) {
  if (basis == Basis::kBf16) return Bf16ToFloat(FloatToBf16(value));
  if (basis == Basis::kF16) return F16ToFloat(FloatToF16(value));
  return value;
}

// Elements that q8 rounds together.
inline constexpr uint32_t kQ8Elements = 32;

// The larger magnitude; a NaN is passed over.
MESHSEAL_HOST_DEVICE inline float LargerMagnitude(float largest, float value) {
  const float magnitude = std::fabs(value);
  return largest < magnitude ? magnitude : largest;
}

// What rounds the elements of a q8 block whose largest magnitude is `largest`.
struct Q8Step {
  MESHSEAL_HOST_DEVICE explicit Q8Step(float largest) {
    const float step = largest / 127;
    stored = F16ToFloat(FloatToF16(step));
    inverse = stored == 0 ? 0 : 1 / step;  // of the step before it is stored
  }
  MESHSEAL_HOST_DEVICE float Rounded(float value) const { return std::round(value * inverse) * stored; }

  float stored = 0;
  float inverse = 0;
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_BACKEND_BASIS_ROUNDING_H_
