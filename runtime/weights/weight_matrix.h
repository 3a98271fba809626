// A weight matrix as stored, and the only way to read it: one row at a time, decoded to float32.
#ifndef MESHSEAL_RUNTIME_WEIGHTS_WEIGHT_MATRIX_H_
#define MESHSEAL_RUNTIME_WEIGHTS_WEIGHT_MATRIX_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "schema/dtype.h"

namespace meshseal::runtime {

// out.size() elements, whole blocks, of `dtype`, which has a format (formats/format.h), from `bytes` (any alignment) to
// float32.
void DecodeRow(DType dtype, const std::byte* bytes, absl::Span<float> out);

// A view; row-major without gaps. Its bytes are immutable once loaded, so it may be read from several
// threads.
struct WeightMatrix {
  DType dtype = DType::kInvalid;
  uint32_t rows = 0;
  uint32_t columns = 0;
  uint64_t row_bytes = 0;
  const std::byte* data = nullptr;

  // Row `row` into `out`, which has `columns` elements.
  void Row(uint32_t row, absl::Span<float> out) const { DecodeRow(dtype, data + row * row_bytes, out); }
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_WEIGHTS_WEIGHT_MATRIX_H_
