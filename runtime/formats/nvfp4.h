// nvfp4: 64 codes of E2M1 in four groups, each behind an unsigned E4M3 scale; in a group, code k shares its byte with
// code k + 8.
#ifndef MESHSEAL_RUNTIME_FORMATS_NVFP4_H_
#define MESHSEAL_RUNTIME_FORMATS_NVFP4_H_

#include <cstddef>
#include <cstdint>

#include "runtime/formats/block_bits.h"

namespace meshseal::runtime {

// Elements [first, first + 8) of a block; `first` is a multiple of 8.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline void EightOfNvfp4(const std::byte* block, uint32_t first, float* out) {
  const uint32_t group = first / 16;
  const float scale = E4M3(ByteAt(block, group));
  const uint64_t codes = NibblesOf(EightBytesAt<kAlignment>(block, 4 + 8 * group), first % 16 >= 8);
  for (uint32_t i = 0; i < 8; ++i) out[i] = scale * E2M1(ByteOf(codes, i));
}

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_FORMATS_NVFP4_H_
