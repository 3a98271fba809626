#include "runtime/weights/weight_matrix.h"

#include <cstring>

#include "runtime/formats/block_bits.h"
#include "runtime/formats/format.h"
#include "runtime/weights/scaled_element.h"

namespace meshseal::runtime {

void DecodeRow(DType dtype, const std::byte* bytes, absl::Span<float> out) {
  const Format& format = *FindFormat(dtype);
  format.decode(bytes, out.size() / format.block_elements, out.data());
}

void WeightMatrix::Row(uint32_t row, absl::Span<float> out) const {
  if (planes.are_there()) {
    for (uint32_t i = 0; i < columns; i += 8) ReadEightRepacked(dtype, planes, columns, row, i, &out[i]);
  } else if (const std::byte* const at = data + row * row_bytes; packed) {
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = E2M1(Nibble(ByteAt(at, i / 2), i % 2 == 1));
    }
  } else if (element_bytes > 0) {
    for (size_t i = 0; i < out.size(); ++i) DecodeRow(dtype, at + i * element_bytes, out.subspan(i, 1));
  } else {
    DecodeRow(dtype, at, out);
  }
  if (scale.dtype == DType::kInvalid && scale_2.dtype == DType::kInvalid) return;
  for (uint32_t i = 0; i < columns; ++i) out[i] = ScaledElement(out[i], scale, scale_2, row, i);
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
