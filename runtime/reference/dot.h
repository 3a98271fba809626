// The products that the reference backend is made of.
#ifndef MESHSEAL_RUNTIME_REFERENCE_DOT_H_
#define MESHSEAL_RUNTIME_REFERENCE_DOT_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "runtime/weights/weight_matrix.h"
#include "schema/float_bits.h"
#include "schema/terms.h"

namespace meshseal::runtime {

// `value` as an operand of basis `basis`.
inline float ToBasis(Basis basis, float value) {
  return basis == Basis::kBf16 ? Bf16ToFloat(FloatToBf16(value)) : value;
}

inline std::vector<float> ToBasis(Basis basis, absl::Span<const float> row) {
  std::vector<float> rounded(row.begin(), row.end());
  for (float& value : rounded) value = ToBasis(basis, value);
  return rounded;
}

// A float64 holds each product exactly; the sum is made in index order and rounded once.
inline float Dot(absl::Span<const float> a, absl::Span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return static_cast<float>(sum);
}

// out[r] = row r of `matrix` times `x`, for every row.
inline void Multiply(const WeightMatrix& matrix, absl::Span<const float> x, absl::Span<float> out) {
  std::vector<float> row(matrix.columns);
  for (uint32_t r = 0; r < matrix.rows; ++r) {
    matrix.Row(r, absl::MakeSpan(row));
    out[r] = Dot(x, row);
  }
}

// Row `row` of a matrix with rows of `width` elements.
template <class T>
absl::Span<T> RowOf(absl::Span<T> matrix, uint64_t row, uint64_t width) {
  return matrix.subspan(row * width, width);
}

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_REFERENCE_DOT_H_
