#include "runtime/backend/basis.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "schema/float_bits.h"
#include "schema/meaning/shape_facts.h"

namespace meshseal::runtime {
namespace {

void ToQ8(absl::Span<float> block) {
  float largest = 0;
  for (const float value : block) largest = std::max(largest, std::fabs(value));  // a NaN is passed over
  const float step = largest / 127;
  const float stored = F16ToFloat(FloatToF16(step));
  const float inverse = stored == 0 ? 0 : 1 / step;  // of the step before it is stored
  for (float& value : block) value = std::round(value * inverse) * stored;
}

}  // namespace

uint16_t FloatToF16(float value) {
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

void ToBasis(Basis basis, absl::Span<float> row) {
  switch (basis) {
    case Basis::kBf16:
      for (float& value : row) value = Bf16ToFloat(FloatToBf16(value));
      return;
    case Basis::kF16:
      for (float& value : row) value = F16ToFloat(FloatToF16(value));
      return;
    case Basis::kQ8:
      for (size_t first = 0; first < row.size(); first += meaning::kQ8Block) {
        ToQ8(row.subspan(first, meaning::kQ8Block));
      }
      return;
    case Basis::kF32:
    case Basis::kRotated:  // CheckExecuted refuses it
    case Basis::kInvalid:
      return;
  }
}

}  // namespace meshseal::runtime
