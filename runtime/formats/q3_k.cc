// q3_k: a super-block of 256 codes of three bits around 4, the upper bit in a plane of its own, and a scale of six bits
// around 32 for each 16.
#include <cstddef>

#include "runtime/formats/block_bits.h"

namespace meshseal::runtime {

void DecodeQ3K(const std::byte* block, float* out) {
  const double d = F16At(block, 108);
  for (size_t i = 0; i < 256; ++i) {
    const size_t group = i / 16;
    const unsigned low_scale = Nibble(ByteAt(block, 96 + group % 8), group >= 8);
    const unsigned high_scale = (ByteAt(block, 96 + 8 + group % 4) >> (2 * (group / 4))) & 3u;
    const unsigned low = (ByteAt(block, 32 + i / 128 * 32 + i % 32) >> (2 * (i % 128 / 32))) & 3u;
    const unsigned high = (ByteAt(block, i % 32) >> (i / 32)) & 1u;
    out[i] = static_cast<float>(d * (static_cast<int>(low_scale | high_scale << 4) - 32) *
                                (static_cast<int>(low | high << 2) - 4));
  }
}

const char* FaultOfQ3K(const std::byte* block) { return FaultOfHalf(block, 108); }

void TameQ3K(std::byte* block) { SetHalf(block, 108, -10); }

}  // namespace meshseal::runtime
