// q5_k: as q4_k, with a fifth bit of each code in a plane of its own.
#ifndef MESHSEAL_RUNTIME_FORMATS_Q5_K_H_
#define MESHSEAL_RUNTIME_FORMATS_Q5_K_H_

#include <cstddef>
#include <cstdint>

#include "runtime/formats/block_bits.h"

namespace meshseal::runtime {

// Elements [first, first + 8) of a block; `first` is a multiple of 8.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline void EightOfQ5K(const std::byte* block, uint32_t first, float* out) {
  const uint32_t group = first / 32;
  const GroupScales of_group = GroupScalesAt<kAlignment>(block, group);
  const uint64_t low = NibblesOf(EightBytesAt<kAlignment>(block, 48 + first / 64 * 32 + first % 32), group % 2 == 1);
  const uint64_t high = (EightBytesAt<kAlignment>(block, 16 + first % 32) >> group) & 0x0101010101010101u;
  const uint64_t codes = low | high << 4;
  for (uint32_t i = 0; i < 8; ++i)
    out[i] = ProductLess(of_group.scale, static_cast<float>(ByteOf(codes, i)), of_group.min);
}

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_FORMATS_Q5_K_H_
