// A sum in an order that a warp of 32 lanes can keep: what is summed over experts.
#ifndef MESHSEAL_RUNTIME_NUMERICS_INTERLEAVED_SUM_H_
#define MESHSEAL_RUNTIME_NUMERICS_INTERLEAVED_SUM_H_

#include <array>
#include <cstddef>

#include "absl/types/span.h"

namespace meshseal::runtime {

// Addend i goes to partial sum i mod 32, in ascending order; then the upper half of the partial sums is added to the
// lower half until one is left.
inline double InterleavedSum(absl::Span<const double> addends) {
  std::array<double, 32> partial{};
  for (size_t i = 0; i < addends.size(); ++i) partial[i % partial.size()] += addends[i];
  for (size_t half = partial.size() / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) partial[i] += partial[i + half];
  }
  return partial[0];
}

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_NUMERICS_INTERLEAVED_SUM_H_
