// mxfp4: 32 codes of E2M1 behind one power of two (E8M0); code i shares its byte with code i + 16.
#ifndef MESHSEAL_RUNTIME_FORMATS_MXFP4_H_
#define MESHSEAL_RUNTIME_FORMATS_MXFP4_H_

#include <cstddef>
#include <cstdint>

#include "runtime/formats/block_bits.h"

namespace meshseal::runtime {

// Elements [first, first + 8) of a block; `first` is a multiple of 8.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline void EightOfMxfp4(const std::byte* block, uint32_t first, float* out) {
  const float scale = E8M0(ByteAt(block, 0));
  const uint64_t codes = NibblesOf(EightBytesAt<kAlignment>(block, 1 + first % 16), first >= 16);
  for (uint32_t i = 0; i < 8; ++i) out[i] = scale * E2M1(ByteOf(codes, i));
}

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_FORMATS_MXFP4_H_
