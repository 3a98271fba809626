#include "runtime/backend/basis.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "schema/float_bits.h"
#include "schema/meaning/shape_facts.h"

namespace meshseal::runtime {
namespace {

void ToQ8(absl::Span<float> block) {
  float largest = 0;
  for (const float value : block) largest = std::max(largest, std::fabs(value));  // a NaN is passed over
  const float step = largest / 127;
  const float stored = F16ToFloat(FloatToF16(step));
  const float inverse = stored == 0 ? 0 : 1 / step;  // of the step before it is stored
  for (float& value : block) value = std::round(value * inverse) * stored;
}

}  // namespace

void ToBasis(Basis basis, absl::Span<float> row) {
  switch (basis) {
    case Basis::kBf16:
      for (float& value : row) value = Bf16ToFloat(FloatToBf16(value));
      return;
    case Basis::kF16:
      for (float& value : row) value = F16ToFloat(FloatToF16(value));
      return;
    case Basis::kQ8:
      for (size_t first = 0; first < row.size(); first += meaning::kQ8Block) {
        ToQ8(row.subspan(first, meaning::kQ8Block));
      }
      return;
    case Basis::kF32:
    case Basis::kRotated:  // CheckExecuted refuses it
    case Basis::kInvalid:
      return;
  }
}

}  // namespace meshseal::runtime
