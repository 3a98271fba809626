// iq4_xs: a super-block of 256 codes of iq4_nl in eight groups, each with a scale of six bits around 32.
#ifndef MESHSEAL_RUNTIME_FORMATS_IQ4_XS_H_
#define MESHSEAL_RUNTIME_FORMATS_IQ4_XS_H_

#include <cstddef>
#include <cstdint>

#include "runtime/formats/block_bits.h"

namespace meshseal::runtime {

// Elements [first, first + 8) of a block; `first` is a multiple of 8.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline void EightOfIq4Xs(const std::byte* block, uint32_t first, float* out) {
  const uint32_t group = first / 32;
  const unsigned low = Nibble(ByteAt(block, 4 + group / 2), group % 2 == 1);
  const unsigned high = LoadAs<uint16_t, kAlignment>(block + 2) >> (2 * group) & 3u;
  const float scale = F16At<kAlignment>(block, 0) * static_cast<float>(static_cast<int>(low | high << 4) - 32);
  const uint64_t codes = NibblesOf(EightBytesAt<kAlignment>(block, 8 + 16 * group + first % 16), first % 32 >= 16);
  for (uint32_t i = 0; i < 8; ++i) out[i] = scale * NonLinear(ByteOf(codes, i));
}

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_FORMATS_IQ4_XS_H_
