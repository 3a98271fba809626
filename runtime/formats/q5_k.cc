// q5_k: as q4_k, with a fifth bit of each code in a plane of its own.
#include <cstddef>

#include "runtime/formats/block_bits.h"

namespace meshseal::runtime {

void DecodeQ5K(const std::byte* block, float* out) {
  const double d = F16At(block, 0);
  const double dmin = F16At(block, 2);
  for (size_t i = 0; i < 256; ++i) {
    const size_t group = i / 32;
    const ScaleAndMin six = SixBits(block + 4, group);
    const unsigned low = Nibble(ByteAt(block, 48 + i / 64 * 32 + i % 32), group % 2 == 1);
    const unsigned high = (ByteAt(block, 16 + i % 32) >> group) & 1u;
    out[i] = static_cast<float>(d * six.scale * (low | high << 4) - dmin * six.min);
  }
}

const char* FaultOfQ5K(const std::byte* block) { return FaultOfHalves(block, 0, 2); }

void TameQ5K(std::byte* block) {
  SetHalf(block, 0, -14);
  SetHalf(block, 2, -10);
}

}  // namespace meshseal::runtime
