// Compares two arrays element by element.
#ifndef MESHSEAL_TOOLS_ARRAYS_COMPARE_H_
#define MESHSEAL_TOOLS_ARRAYS_COMPARE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/arrays/array_file.h"

namespace meshseal::tools {

struct Comparison {
  // max|Δ| / max|ref| over elements that are finite in both arrays: 0 where there is no Δ, infinite where Δ
  // stands over an all-zero reference. Infinite too when any element is NaN or only one of a pair is that
  // infinity, so that such arrays are outside every tolerance.
  double ratio = 0;
  uint64_t elements = 0;
  uint64_t differing = 0;   // elements with other bits (0 and -0 are two), or with a NaN
  uint64_t nans = 0;        // elements with a NaN in either array, equal or not
  uint64_t infinities = 0;  // elements with an infinity and no NaN
  // The element of the largest |Δ|, the first of equals; a NaN is larger than all. Absent (empty texts) when
  // Δ is 0 everywhere.
  std::vector<uint64_t> worst_index;
  std::string worst_value;      // in the array
  std::string worst_reference;  // in the reference
};

// `reference` is what `array` is measured against. Floats (f64, f32, f16, bf16) are compared as exact values,
// integers and bools exactly. Another dtype or shape is refused (Reason::kDiffers), as is a dtype without a
// number line here (Reason::kNotBuilt).
absl::StatusOr<Comparison> CompareArrays(const Array& array, const Array& reference);

// `max|Δ|/max|ref| = 3.1e-07 (worst at [12, 200]: 0.123 against 0.124), 49152 elements, 311 differ`; a second
// line when there are NaNs or infinities.
std::string ComparisonText(const Comparison& comparison);

}  // namespace meshseal::tools

#endif  // MESHSEAL_TOOLS_ARRAYS_COMPARE_H_
