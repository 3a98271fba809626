// q6_k: a super-block of 256 codes of six bits around 32, and a signed scale for each 16.
#include <cstddef>

#include "runtime/formats/block_bits.h"

namespace meshseal::runtime {

void DecodeQ6K(const std::byte* block, float* out) {
  const double d = F16At(block, 208);
  for (size_t i = 0; i < 256; ++i) {
    const size_t half = i / 128;
    const size_t group = i % 128 / 32;
    const unsigned low = Nibble(ByteAt(block, half * 64 + group % 2 * 32 + i % 32), group >= 2);
    const unsigned high = (ByteAt(block, 128 + half * 32 + i % 32) >> (2 * group)) & 3u;
    out[i] = static_cast<float>(d * SignedByteAt(block, 192 + i / 16) * (static_cast<int>(low | high << 4) - 32));
  }
}

const char* FaultOfQ6K(const std::byte* block) { return FaultOfHalf(block, 208); }

void TameQ6K(std::byte* block) { SetHalf(block, 208, -15); }

}  // namespace meshseal::runtime
