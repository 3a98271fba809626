#include "runtime/reference/exact_addends.h"

#include <vector>

#include "runtime/reference/dot.h"

namespace meshseal::runtime {

std::optional<float> AddExact(const FixedPoint& fixed_point, float factor, float value, int64_t* sum) {
  const float addend = factor * value;
  if (!fixed_point.Holds(addend)) return addend;
  *sum += fixed_point.Of(addend);
  return std::nullopt;
}

std::optional<float> AddProducts(const FixedPoint& fixed_point, absl::Span<const uint32_t> segment_ends,
                                 const WeightMatrix& matrix, absl::Span<const float> x, float factor,
                                 absl::Span<int64_t> sums) {
  std::vector<float> row(matrix.columns);
  for (uint32_t r = 0; r < matrix.rows; ++r) {
    matrix.Row(r, absl::MakeSpan(row));
    uint32_t begin = 0;
    for (const uint32_t end : segment_ends) {
      const float product = Dot(x.subspan(begin, end - begin), absl::MakeConstSpan(row).subspan(begin, end - begin));
      if (const std::optional<float> refused = AddExact(fixed_point, factor, product, &sums[r])) return refused;
      begin = end;
    }
  }
  return std::nullopt;
}

}  // namespace meshseal::runtime
