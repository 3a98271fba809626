// iq4_nl: as q4_0, with codes that stand for unequal steps.
#ifndef MESHSEAL_RUNTIME_FORMATS_IQ4_NL_H_
#define MESHSEAL_RUNTIME_FORMATS_IQ4_NL_H_

#include <cstddef>
#include <cstdint>

#include "runtime/formats/block_bits.h"

namespace meshseal::runtime {

// Elements [first, first + 8) of a block; `first` is a multiple of 8.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline void EightOfIq4Nl(const std::byte* block, uint32_t first, float* out) {
  const float d = F16At<kAlignment>(block, 0);
  const uint64_t codes = NibblesOf(EightBytesAt<kAlignment>(block, 2 + first % 16), first >= 16);
  for (uint32_t i = 0; i < 8; ++i) out[i] = d * NonLinear(ByteOf(codes, i));
}

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_FORMATS_IQ4_NL_H_
