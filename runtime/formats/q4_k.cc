// q4_k: a super-block of 256 codes of four bits in eight groups, each with a scale and a minimum of six bits.
#include <cstddef>

#include "runtime/formats/block_bits.h"

namespace meshseal::runtime {

void DecodeQ4K(const std::byte* block, float* out) {
  const double d = F16At(block, 0);
  const double dmin = F16At(block, 2);
  for (size_t i = 0; i < 256; ++i) {
    const size_t group = i / 32;
    const ScaleAndMin six = SixBits(block + 4, group);
    const unsigned code = Nibble(ByteAt(block, 16 + i / 64 * 32 + i % 32), group % 2 == 1);
    out[i] = static_cast<float>(d * six.scale * code - dmin * six.min);
  }
}

const char* FaultOfQ4K(const std::byte* block) { return FaultOfHalves(block, 0, 2); }

void TameQ4K(std::byte* block) {
  SetHalf(block, 0, -13);
  SetHalf(block, 2, -10);
}

}  // namespace meshseal::runtime
