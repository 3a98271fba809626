// A weight matrix, as stored or repacked, and the only way to read it: one row at a time, decoded to float32.
#ifndef MESHSEAL_RUNTIME_WEIGHTS_WEIGHT_MATRIX_H_
#define MESHSEAL_RUNTIME_WEIGHTS_WEIGHT_MATRIX_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "runtime/formats/repacked.h"
#include "schema/dtype.h"
#include "schema/terms.h"

namespace meshseal::runtime {

// out.size() elements, whole blocks, of `dtype`, which has a format (formats/format.h), from `bytes` (any alignment) to
// float32.
void DecodeRow(DType dtype, const std::byte* bytes, absl::Span<float> out);

// A view of the scales that a matrix's elements are multiplied with or divided by: one for each block of rows and
// columns, or one for all. scaled_element.h applies them.
struct WeightScales {
  DType dtype = DType::kInvalid;  // f32, f16, bf16, f8_e4m3, f8_e8m0 or u8, which stands for f8_e8m0; invalid: none
  ScaleApplies applies = ScaleApplies::kInvalid;
  uint32_t block_rows = 0;  // 0 x 0: one for all
  uint32_t block_columns = 0;
  // Row r of the matrix is row first_row + r * row_step of those that the blocks count: a half of gate and up.
  uint32_t first_row = 0;
  uint32_t row_step = 1;
  uint64_t row_bytes = 0;     // from a scale to the one of the next rows
  uint64_t column_bytes = 0;  // and of the next columns
  const std::byte* data = nullptr;
};

// A view. Its bytes are immutable once loaded, so it may be read from several threads.
struct WeightMatrix {
  DType dtype = DType::kInvalid;
  uint32_t rows = 0;
  uint32_t columns = 0;
  uint64_t row_bytes = 0;  // from a row to the next
  const std::byte* data = nullptr;
  // From an element of a row to the next, where they do not lie one after the other: a transposed matrix, or one of two
  // vectors that alternate. Such elements are blocks of their own.
  uint64_t element_bytes = 0;
  // Two codes of E2M1 in a byte, the even element in its low half; the format's own scales are in `scale`.
  bool packed = false;
  WeightScales scale;
  WeightScales scale_2;
  // Where they are there, the elements lie in them; data and row_bytes say nothing.
  RepackedPlanes planes;

  bool empty() const { return rows == 0 || columns == 0; }

  // Row `row` into `out`, which has `columns` elements. A scaled element is rounded to float32 once.
  void Row(uint32_t row, absl::Span<float> out) const;

  // An element of a table of i32 or i64.
  int64_t Entry(uint32_t row, uint32_t column) const;
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_WEIGHTS_WEIGHT_MATRIX_H_
