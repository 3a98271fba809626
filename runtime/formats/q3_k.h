// q3_k: a super-block of 256 codes of three bits around 4, the upper bit in a plane of its own, and a scale of six bits
// around 32 for each 16.
#ifndef MESHSEAL_RUNTIME_FORMATS_Q3_K_H_
#define MESHSEAL_RUNTIME_FORMATS_Q3_K_H_

#include <cstddef>
#include <cstdint>

#include "runtime/formats/block_bits.h"

namespace meshseal::runtime {

// Elements [first, first + 8) of a block; `first` is a multiple of 8.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline void EightOfQ3K(const std::byte* block, uint32_t first, float* out) {
  const uint32_t group = first / 16;
  const unsigned low_scale = Nibble(ByteAt(block, 96 + group % 8), group >= 8);
  const unsigned high_scale = (ByteAt(block, 96 + 8 + group % 4) >> (2 * (group / 4))) & 3u;
  const float scale =
      F16At<kAlignment>(block, 108) * static_cast<float>(static_cast<int>(low_scale | high_scale << 4) - 32);
  const uint64_t low =
      PairsOf(EightBytesAt<kAlignment>(block, 32 + first / 128 * 32 + first % 32), 2 * (first % 128 / 32));
  const uint64_t high = (EightBytesAt<kAlignment>(block, first % 32) >> (first / 32)) & 0x0101010101010101u;
  const uint64_t codes = low | high << 2;
  for (uint32_t i = 0; i < 8; ++i) out[i] = scale * static_cast<float>(static_cast<int>(ByteOf(codes, i)) - 4);
}

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_FORMATS_Q3_K_H_
