// q2_k: a super-block of 256 codes of two bits, and a scale and a minimum of four bits for each 16.
#ifndef MESHSEAL_RUNTIME_FORMATS_Q2_K_H_
#define MESHSEAL_RUNTIME_FORMATS_Q2_K_H_

#include <cstddef>
#include <cstdint>

#include "runtime/formats/block_bits.h"

namespace meshseal::runtime {

// Elements [first, first + 8) of a block; `first` is a multiple of 8.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline void EightOfQ2K(const std::byte* block, uint32_t first, float* out) {
  const unsigned both = ByteAt(block, first / 16);
  const float scale = F16At<kAlignment>(block, 80) * static_cast<float>(Nibble(both, false));
  const float min = F16At<kAlignment>(block, 82) * static_cast<float>(Nibble(both, true));
  const uint64_t codes =
      PairsOf(EightBytesAt<kAlignment>(block, 16 + first / 128 * 32 + first % 32), 2 * (first % 128 / 32));
  for (uint32_t i = 0; i < 8; ++i) out[i] = ProductLess(scale, static_cast<float>(ByteOf(codes, i)), min);
}

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_FORMATS_Q2_K_H_
