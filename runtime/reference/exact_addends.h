// What the exact forms of down and shared_down have in common: products that become fixed point segment by segment.
#ifndef MESHSEAL_RUNTIME_REFERENCE_EXACT_ADDENDS_H_
#define MESHSEAL_RUNTIME_REFERENCE_EXACT_ADDENDS_H_

#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "runtime/program/fixed_point.h"
#include "runtime/weights/weight_matrix.h"

namespace meshseal::runtime {

// Adds factor * value to `sum`, if it may be an addend; the addend where it may not.
std::optional<float> AddExact(const FixedPoint& fixed_point, float factor, float value, int64_t* sum);

// Adds factor * (row r of `matrix` times `x`, of one segment's columns) to sums[r], for every row and segment. The
// first addend that may not be one ends it.
std::optional<float> AddProducts(const FixedPoint& fixed_point, absl::Span<const uint32_t> segment_ends,
                                 const WeightMatrix& matrix, absl::Span<const float> x, float factor,
                                 absl::Span<int64_t> sums);

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_REFERENCE_EXACT_ADDENDS_H_
