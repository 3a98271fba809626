#include "runtime/reference/exact_addends.h"

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/reference/dot.h"
#include "schema/format_text.h"
#include "schema/reason.h"

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

absl::Status RefuseAddend(const FixedPoint& fixed_point, uint64_t token, absl::string_view what, float addend) {
  if (!std::isfinite(addend)) {
    return Refuse(Reason::kNonFinite, absl::StrCat("token ", token, ": the output of ", what, " is not finite"));
  }
  return Refuse(Reason::kBound, absl::StrCat("token ", token, ": the output of ", what, " is ",
                                             FormatText("%.9g", static_cast<double>(addend)), ", not below the bound ",
                                             FormatText("%.17g", fixed_point.bound)));
}

}  // namespace meshseal::runtime
