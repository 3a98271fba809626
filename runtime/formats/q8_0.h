// q8_0: a scale and 32 signed bytes.
#ifndef MESHSEAL_RUNTIME_FORMATS_Q8_0_H_
#define MESHSEAL_RUNTIME_FORMATS_Q8_0_H_

#include <cstddef>
#include <cstdint>

#include "runtime/formats/block_bits.h"

namespace meshseal::runtime {

// Elements [first, first + 8) of a block; `first` is a multiple of 8.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline void EightOfQ8_0(const std::byte* block, uint32_t first, float* out) {
  const float d = F16At<kAlignment>(block, 0);
  const uint64_t codes = EightBytesAt<kAlignment>(block, 2 + first);
  for (uint32_t i = 0; i < 8; ++i) out[i] = d * static_cast<float>(static_cast<int8_t>(ByteOf(codes, i)));
}

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_FORMATS_Q8_0_H_
