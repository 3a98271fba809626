// q4_0: a scale and 32 codes of four bits around 8; code i shares its byte with code i + 16.
#include <cstddef>

#include "runtime/formats/block_bits.h"

namespace meshseal::runtime {

void DecodeQ4_0(const std::byte* block, float* out) {
  const double d = F16At(block, 0);
  for (size_t i = 0; i < 32; ++i) {
    const int code = static_cast<int>(Nibble(ByteAt(block, 2 + i % 16), i >= 16));
    out[i] = static_cast<float>(d * (code - 8));
  }
}

const char* FaultOfQ4_0(const std::byte* block) { return FaultOfHalf(block, 0); }

void TameQ4_0(std::byte* block) { SetHalf(block, 0, -7); }

}  // namespace meshseal::runtime
