// iq4_nl: as q4_0, with codes that stand for unequal steps.
#include <cstddef>

#include "runtime/formats/block_bits.h"

namespace meshseal::runtime {

void DecodeIq4Nl(const std::byte* block, float* out) {
  const double d = F16At(block, 0);
  for (size_t i = 0; i < 32; ++i) {
    out[i] = static_cast<float>(d * kNonLinear[Nibble(ByteAt(block, 2 + i % 16), i >= 16)]);
  }
}

const char* FaultOfIq4Nl(const std::byte* block) { return FaultOfHalf(block, 0); }

void TameIq4Nl(std::byte* block) { SetHalf(block, 0, -11); }

}  // namespace meshseal::runtime
