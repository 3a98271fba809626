#include "tests/support/gguf_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdlib>

#include "schema/float_bits.h"

namespace meshseal::support {
namespace {

void Append(uint64_t value, size_t bytes, std::string* out) {
  for (size_t i = 0; i < bytes; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

// Appends a scale, and returns it as the reader sees it.
double AppendScale(double scale, std::string* out) {
  const uint16_t bits = FloatToF16(static_cast<float>(scale));
  Append(bits, 2, out);
  return static_cast<double>(F16ToFloat(bits));
}

// The nearest whole number to value / scale, within [least, most].
int Code(double value, double scale, int least, int most) {
  if (scale == 0) return std::clamp(0, least, most);
  return static_cast<int>(std::clamp(std::nearbyint(value / scale), double(least), double(most)));
}

void AppendQ8_0(absl::Span<const float> values, std::string* out) {
  double largest = 0;
  for (const float value : values) largest = std::max(largest, std::fabs(double{value}));
  const double d = AppendScale(largest / 127, out);
  for (const float value : values) Append(static_cast<uint64_t>(Code(value, d, -127, 127)), 1, out);
}

// The value of the largest magnitude becomes code 0, -8 times the scale.
void AppendQ4_0(absl::Span<const float> values, std::string* out) {
  double largest = 0;
  for (const float value : values) {
    if (std::fabs(double{value}) > std::fabs(largest)) largest = value;
  }
  const double d = AppendScale(largest / -8, out);
  const auto code = [&](size_t i) { return static_cast<unsigned>(Code(values[i], d, -8, 7) + 8); };
  for (size_t i = 0; i < 16; ++i) Append(code(i) | code(i + 16) << 4, 1, out);
}

void AppendQ4K(absl::Span<const float> values, std::string* out) {
  constexpr size_t kGroups = 8;
  constexpr size_t kGroup = 32;
  std::array<double, kGroups> scales{};
  std::array<double, kGroups> mins{};  // what is subtracted
  for (size_t g = 0; g < kGroups; ++g) {
    const auto begin = values.begin() + g * kGroup;
    const double least = std::min(0.0, double{*std::min_element(begin, begin + kGroup)});
    const double most = std::max(0.0, double{*std::max_element(begin, begin + kGroup)});
    scales[g] = (most - least) / 15;
    mins[g] = -least;
  }
  const double d = AppendScale(*std::max_element(scales.begin(), scales.end()) / 63, out);
  const double dmin = AppendScale(*std::max_element(mins.begin(), mins.end()) / 63, out);
  std::array<unsigned, kGroups> s{};
  std::array<unsigned, kGroups> m{};
  for (size_t g = 0; g < kGroups; ++g) {
    s[g] = static_cast<unsigned>(Code(scales[g], d, 0, 63));
    m[g] = static_cast<unsigned>(Code(mins[g], dmin, 0, 63));
  }
  // Six bits each in 12 bytes: the first four groups' whole, the upper two bits of the others' above them.
  for (size_t g = 0; g < 4; ++g) Append(s[g] | s[g + 4] >> 4 << 6, 1, out);
  for (size_t g = 0; g < 4; ++g) Append(m[g] | m[g + 4] >> 4 << 6, 1, out);
  for (size_t g = 4; g < 8; ++g) Append((s[g] & 15u) | (m[g] & 15u) << 4, 1, out);
  const auto code = [&](size_t g, size_t i) {
    return static_cast<unsigned>(Code(double{values[g * kGroup + i]} + dmin * m[g], d * s[g], 0, 15));
  };
  for (size_t g = 0; g < kGroups; g += 2) {
    for (size_t i = 0; i < kGroup; ++i) Append(code(g, i) | code(g + 1, i) << 4, 1, out);
  }
}

}  // namespace

uint16_t FloatToF16(float value) {
  const unsigned sign = std::signbit(value) ? 0x8000u : 0u;
  const double magnitude = std::fabs(double{value});
  const int exponent = magnitude == 0 ? -14 : std::max(std::ilogb(magnitude), -14);
  // 1024 to 2048 units of the last bit, less for a subnormal: the leading one adds to the exponent's field.
  const auto units = static_cast<unsigned>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  return static_cast<uint16_t>(sign | ((static_cast<unsigned>(exponent + 14) << 10) + units));
}

std::string EncodeBlocks(DType dtype, absl::Span<const float> values) {
  std::string out;
  const size_t block = FindDType(dtype)->block_elements;
  for (size_t at = 0; at < values.size(); at += block) {
    const absl::Span<const float> part = values.subspan(at, block);
    switch (dtype) {
      case DType::kF32:
        out.append(reinterpret_cast<const char*>(part.data()), sizeof(float));
        break;
      case DType::kF16:
        Append(FloatToF16(part[0]), 2, &out);
        break;
      case DType::kQ8_0:
        AppendQ8_0(part, &out);
        break;
      case DType::kQ4_0:
        AppendQ4_0(part, &out);
        break;
      case DType::kQ4K:
        AppendQ4K(part, &out);
        break;
      default:
        std::abort();
    }
  }
  return out;
}

}  // namespace meshseal::support
