// q2_k: a super-block of 256 codes of two bits, and a scale and a minimum of four bits for each 16.
#include <cstddef>

#include "runtime/formats/block_bits.h"

namespace meshseal::runtime {

void DecodeQ2K(const std::byte* block, float* out) {
  const double d = F16At(block, 80);
  const double dmin = F16At(block, 82);
  for (size_t i = 0; i < 256; ++i) {
    const unsigned code = (ByteAt(block, 16 + i / 128 * 32 + i % 32) >> (2 * (i % 128 / 32))) & 3u;
    const unsigned both = ByteAt(block, i / 16);
    out[i] = static_cast<float>(d * Nibble(both, false) * code - dmin * Nibble(both, true));
  }
}

const char* FaultOfQ2K(const std::byte* block) { return FaultOfHalves(block, 80, 82); }

void TameQ2K(std::byte* block) {
  SetHalf(block, 80, -9);
  SetHalf(block, 82, -9);
}

}  // namespace meshseal::runtime
