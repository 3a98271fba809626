// The products that the reference backend is made of.
#ifndef MESHSEAL_RUNTIME_REFERENCE_DOT_H_
#define MESHSEAL_RUNTIME_REFERENCE_DOT_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "runtime/backend/basis.h"
#include "runtime/weights/weight_matrix.h"
#include "schema/terms.h"

namespace meshseal::runtime {

// `row` as operands of basis `basis`.
inline std::vector<float> ToBasis(Basis basis, absl::Span<const float> row) {
  std::vector<float> rounded(row.begin(), row.end());
  ToBasis(basis, absl::MakeSpan(rounded));
  return rounded;
}

// A float64 holds each product exactly; the sum is made in index order and rounded once.
inline float Dot(absl::Span<const float> a, absl::Span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return static_cast<float>(sum);
}

// The one row of a vector; empty where the layer has none.
inline std::vector<float> VectorOf(const WeightMatrix& vector) {
  std::vector<float> values(vector.columns);
  if (!vector.empty()) vector.Row(0, absl::MakeSpan(values));
  return values;
}

// out[r] = row r of `matrix` times `x`, for every row.
inline void Multiply(const WeightMatrix& matrix, absl::Span<const float> x, absl::Span<float> out) {
  std::vector<float> row(matrix.columns);
  for (uint32_t r = 0; r < matrix.rows; ++r) {
    matrix.Row(r, absl::MakeSpan(row));
    out[r] = Dot(x, row);
  }
}

// The same, plus a bias for each row, in float32; an empty `bias` adds nothing.
inline void MultiplyAdd(const WeightMatrix& matrix, const WeightMatrix& bias, absl::Span<const float> x,
                        absl::Span<float> out) {
  Multiply(matrix, x, out);
  const std::vector<float> added = VectorOf(bias);
  for (size_t r = 0; r < added.size(); ++r) out[r] += added[r];
}

// Row `row` of a matrix with rows of `width` elements.
template <class T>
absl::Span<T> RowOf(absl::Span<T> matrix, uint64_t row, uint64_t width) {
  return matrix.subspan(row * width, width);
}

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_REFERENCE_DOT_H_
