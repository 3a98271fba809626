// What a lane adds up of an exact sum, and how a warp says what it refused. For .cu files alone.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_EXACT_ROW_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_EXACT_ROW_H_

#include <bit>
#include <cstdint>

#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/step_pods.h"
#include "runtime/program/fixed_point.h"

namespace meshseal::cuda {

// The addends of one element that may be some, and the first that may not.
struct ExactRow {
  int64_t sum = 0;
  float refused = 0;
  bool is_refused = false;

  MESHSEAL_DEVICE void Add(const runtime::FixedPoint& fixed_point, float factor, float value) {
    const float addend = factor * value;
    if (fixed_point.Holds(addend)) {
      sum += fixed_point.Of(addend);
    } else if (!is_refused) {
      is_refused = true;
      refused = addend;
    }
  }
};

// The whole warp calls it: `word` becomes the failure of its lowest lane that refused an addend, or 0.
MESHSEAL_DEVICE void WriteRefusal(const ExactRow& row, uint32_t expert, uint64_t* word) {
  const uint32_t refusing = __ballot_sync(kWholeWarp, row.is_refused);
  const int lowest = refusing == 0 ? 0 : std::countr_zero(refusing);
  const float addend = __shfl_sync(kWholeWarp, row.refused, lowest);
  if (Lane() != 0) return;
  *word = refusing == 0 ? 0 : FailureWord(FailureKind::kBound, expert, std::bit_cast<uint32_t>(addend));
}

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_EXACT_ROW_H_
