#include "runtime/weights/weight_matrix.h"

#include <cmath>
#include <cstring>

#include "runtime/formats/block_bits.h"
#include "runtime/formats/format.h"

namespace meshseal::runtime {

void DecodeRow(DType dtype, const std::byte* bytes, absl::Span<float> out) {
  const Format& format = *FindFormat(dtype);
  format.decode(bytes, out.size() / format.block_elements, out.data());
}

double ScaleValue(DType dtype, const std::byte* bytes) {
  if (dtype == DType::kF8E8M0 || dtype == DType::kU8) {
    return std::ldexp(1.0, static_cast<int>(std::to_integer<unsigned>(*bytes)) - 127);
  }
  float value = 0;
  DecodeRow(dtype, bytes, absl::MakeSpan(&value, 1));
  return static_cast<double>(value);
}

double WeightScales::Scaled(double value, uint32_t row, uint32_t column) const {
  if (dtype == DType::kInvalid) return value;
  const std::byte* at = data;
  if (block_rows > 0) {
    at += (first_row + row * row_step) / block_rows * row_bytes + column / block_columns * column_bytes;
  }
  const double scale = ScaleValue(dtype, at);
  return applies == ScaleApplies::kDivide ? value / scale : value * scale;
}

void WeightMatrix::Row(uint32_t row, absl::Span<float> out) const {
  const std::byte* const at = data + row * row_bytes;
  if (packed) {
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = static_cast<float>(kE2M1[Nibble(ByteAt(at, i / 2), i % 2 == 1)]);
    }
  } else if (element_bytes > 0) {
    for (size_t i = 0; i < out.size(); ++i) DecodeRow(dtype, at + i * element_bytes, out.subspan(i, 1));
  } else {
    DecodeRow(dtype, at, out);
  }
  if (scale.dtype == DType::kInvalid && scale_2.dtype == DType::kInvalid) return;
  for (uint32_t i = 0; i < columns; ++i) {
    // Codes, block scales and one float32 more have 2 + 4 + 24 bits: the product is exact in float64.
    out[i] = static_cast<float>(scale_2.Scaled(scale.Scaled(static_cast<double>(out[i]), row, i), row, i));
  }
}

int64_t WeightMatrix::Entry(uint32_t row, uint32_t column) const {
  const std::byte* const at = data + row * row_bytes;
  if (dtype == DType::kI64) {
    int64_t wide = 0;
    std::memcpy(&wide, at + column * sizeof(wide), sizeof(wide));
    return wide;
  }
  int32_t narrow = 0;
  std::memcpy(&narrow, at + column * sizeof(narrow), sizeof(narrow));
  return narrow;
}

}  // namespace meshseal::runtime
