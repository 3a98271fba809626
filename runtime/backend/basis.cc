#include "runtime/backend/basis.h"

#include <cstddef>

#include "schema/meaning/shape_facts.h"

namespace meshseal::runtime {
namespace {

static_assert(kQ8Elements == meaning::kQ8Block);

void ToQ8(absl::Span<float> block) {
  float largest = 0;
  for (const float value : block) largest = LargerMagnitude(largest, value);
  const Q8Step step(largest);
  for (float& value : block) value = step.Rounded(value);
}

}  // namespace

void ToBasis(Basis basis, absl::Span<float> row) {
  if (basis == Basis::kQ8) {
    for (size_t first = 0; first < row.size(); first += kQ8Elements) ToQ8(row.subspan(first, kQ8Elements));
    return;
  }
  for (float& value : row) value = RoundedTo(basis, value);
}

}  // namespace meshseal::runtime
