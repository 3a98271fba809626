// The fixed point of an exact sum: int64 whose sums are the same in any order. Device code reads it.
#ifndef MESHSEAL_RUNTIME_PROGRAM_FIXED_POINT_H_
#define MESHSEAL_RUNTIME_PROGRAM_FIXED_POINT_H_

#include <cmath>
#include <cstdint>

#include "runtime/host_device.h"

namespace meshseal::runtime {

struct FixedPoint {
  uint32_t fraction_bits = 0;
  double bound = 0;  // of every addend

  // Whether `value` may be an addend; not for a NaN.
  MESHSEAL_HOST_DEVICE bool Holds(float value) const { return std::abs(static_cast<double>(value)) < bound; }

  // Rounded once, to nearest, ties to even. Needs Holds(value): the plan's bits are chosen so that all addends of an
  // element fit an int64.
  MESHSEAL_HOST_DEVICE int64_t Of(float value) const {
    return std::llrint(std::ldexp(static_cast<double>(value), static_cast<int>(fraction_bits)));
  }

  // Rounded once likewise: by the conversion, straight to float32. What follows is exact, as no sum but 0 is below
  // 2^-62.
  MESHSEAL_HOST_DEVICE float ToFloat(int64_t sum) const {
    return std::ldexp(static_cast<float>(sum), -static_cast<int>(fraction_bits));
  }
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_PROGRAM_FIXED_POINT_H_
