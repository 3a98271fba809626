// The number formats that a product's operands and a layer's output are rounded to. Every backend rounds alike.
#ifndef MESHSEAL_RUNTIME_BACKEND_BASIS_H_
#define MESHSEAL_RUNTIME_BACKEND_BASIS_H_

#include "absl/types/span.h"
#include "runtime/backend/basis_rounding.h"
#include "schema/terms.h"

namespace meshseal::runtime {

// Rounds each element of `row` to what `basis` can hold, as float32. All but q8 round an element to nearest, ties to
// even, and a magnitude that is too large to infinity. q8 is what a Q8_0 block of ggml stands for: of each block with
// the largest magnitude m (the last of a row may be shorter) an element is round(x / (m / 127)), half away from zero,
// times m / 127 as f16. A NaN stays one. `rotated` is not executed. basis_rounding.h has the
// arithmetic.
void ToBasis(Basis basis, absl::Span<float> row);

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_BACKEND_BASIS_H_
