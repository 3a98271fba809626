// q4_k: a super-block of 256 codes of four bits in eight groups, each with a scale and a minimum of six bits.
#ifndef MESHSEAL_RUNTIME_FORMATS_Q4_K_H_
#define MESHSEAL_RUNTIME_FORMATS_Q4_K_H_

#include <cstddef>
#include <cstdint>

#include "runtime/formats/block_bits.h"

namespace meshseal::runtime {

// Elements [first, first + 8) of a block; `first` is a multiple of 8.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline void EightOfQ4K(const std::byte* block, uint32_t first, float* out) {
  const uint32_t group = first / 32;
  const GroupScales of_group = GroupScalesAt<kAlignment>(block, group);
  const uint64_t codes = NibblesOf(EightBytesAt<kAlignment>(block, 16 + first / 64 * 32 + first % 32), group % 2 == 1);
  for (uint32_t i = 0; i < 8; ++i)
    out[i] = ProductLess(of_group.scale, static_cast<float>(ByteOf(codes, i)), of_group.min);
}

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_FORMATS_Q4_K_H_
