// What a matrix's element is with its scales, for host and device.
#ifndef MESHSEAL_RUNTIME_WEIGHTS_SCALED_ELEMENT_H_
#define MESHSEAL_RUNTIME_WEIGHTS_SCALED_ELEMENT_H_

#include <cstddef>
#include <cstdint>

#include "runtime/formats/bf16.h"
#include "runtime/formats/block_bits.h"
#include "runtime/formats/f16.h"
#include "runtime/formats/f32.h"
#include "runtime/host_device.h"
#include "schema/dtype.h"
#include "schema/vocabularies.h"

namespace meshseal::runtime {

// A scale as a number; `dtype` is one of those of WeightScales.
MESHSEAL_HOST_DEVICE inline float ScaleValue(DType dtype, const std::byte* bytes) {
  switch (dtype) {
    case DType::kF32:
      return NumberOfF32(LoadAs<uint32_t, 1>(bytes));
    case DType::kF16:
      return NumberOfF16(LoadAs<uint16_t, 1>(bytes));
    case DType::kBf16:
      return NumberOfBf16(LoadAs<uint16_t, 1>(bytes));
    case DType::kF8E4M3:
      return E4M3(ByteAt(bytes, 0));
    default:  // f8_e8m0, and u8, which stands for it
      return E8M0(ByteAt(bytes, 0));
  }
}

// `value` with one scale, rounded to float32 once: a float64 would round a second time at the same place, as neither a
// product (48 bits) nor a quotient (no nearer to the middle of two float32 than 2^-49 of it) comes close to one.
MESHSEAL_HOST_DEVICE inline float Scaled(float value, ScaleApplies applies, float scale) {
  return applies == ScaleApplies::kDivide ? value / scale : value * scale;
}

// `value` with two scales, rounded to float32 once where float64 holds what the first one gives. Codes times e4m3 are
// exact in float32 already.
MESHSEAL_HOST_DEVICE inline float Scaled(float value, ScaleApplies applies, float scale, DType scale_dtype,
                                         ScaleApplies applies_2, float scale_2) {
  if (applies == ScaleApplies::kMultiply && scale_dtype == DType::kF8E4M3) {
    return Scaled(value * scale, applies_2, scale_2);
  }
  const double wide = applies == ScaleApplies::kDivide ? double{value} / double{scale} : double{value} * double{scale};
  return static_cast<float>(applies_2 == ScaleApplies::kDivide ? wide / double{scale_2} : wide * double{scale_2});
}

// The scale of an element of row `row` of a matrix. Scales is WeightScales, or what a device has of it.
template <class Scales>
MESHSEAL_HOST_DEVICE float ScaleOf(const Scales& scales, uint32_t row, uint32_t column) {
  const std::byte* at = scales.data;
  if (scales.block_rows > 0) {
    at += (scales.first_row + row * scales.row_step) / scales.block_rows * scales.row_bytes +
          column / scales.block_columns * scales.column_bytes;
  }
  return ScaleValue(scales.dtype, at);
}

// `value`, an element as its format decodes it, with its scales; itself where there are none.
template <class Scales>
MESHSEAL_HOST_DEVICE float ScaledElement(float value, const Scales& scale, const Scales& scale_2, uint32_t row,
                                         uint32_t column) {
  if (scale.dtype == DType::kInvalid) {
    if (scale_2.dtype == DType::kInvalid) return value;
    return Scaled(value, scale_2.applies, ScaleOf(scale_2, row, column));
  }
  const float first = ScaleOf(scale, row, column);
  if (scale_2.dtype == DType::kInvalid) return Scaled(value, scale.applies, first);
  return Scaled(value, scale.applies, first, scale.dtype, scale_2.applies, ScaleOf(scale_2, row, column));
}

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_WEIGHTS_SCALED_ELEMENT_H_
