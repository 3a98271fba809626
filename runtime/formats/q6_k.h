// q6_k: a super-block of 256 codes of six bits around 32, and a signed scale for each 16.
#ifndef MESHSEAL_RUNTIME_FORMATS_Q6_K_H_
#define MESHSEAL_RUNTIME_FORMATS_Q6_K_H_

#include <cstddef>
#include <cstdint>

#include "runtime/formats/block_bits.h"

namespace meshseal::runtime {

// Elements [first, first + 8) of a block; `first` is a multiple of 8.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline void EightOfQ6K(const std::byte* block, uint32_t first, float* out) {
  const uint32_t half = first / 128;
  const uint32_t group = first % 128 / 32;
  const float scale = F16At<kAlignment>(block, 208) * static_cast<float>(SignedByteAt(block, 192 + first / 16));
  const uint64_t low = NibblesOf(EightBytesAt<kAlignment>(block, half * 64 + group % 2 * 32 + first % 32), group >= 2);
  const uint64_t high = PairsOf(EightBytesAt<kAlignment>(block, 128 + half * 32 + first % 32), 2 * group);
  const uint64_t codes = low | high << 4;
  for (uint32_t i = 0; i < 8; ++i) out[i] = scale * static_cast<float>(static_cast<int>(ByteOf(codes, i)) - 32);
}

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_FORMATS_Q6_K_H_
