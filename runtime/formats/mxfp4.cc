// mxfp4: 32 codes of E2M1 behind one power of two (E8M0); code i shares its byte with code i + 16.
#include <cstddef>

#include "runtime/formats/block_bits.h"

namespace meshseal::runtime {

void DecodeMxfp4(const std::byte* block, float* out) {
  const double scale = std::ldexp(1.0, static_cast<int>(ByteAt(block, 0)) - 127);
  for (size_t i = 0; i < 32; ++i) {
    out[i] = static_cast<float>(scale * kE2M1[Nibble(ByteAt(block, 1 + i % 16), i >= 16)]);
  }
}

const char* FaultOfMxfp4(const std::byte* block) { return ByteAt(block, 0) == 255 ? kScaleNotFinite : nullptr; }

void TameMxfp4(std::byte* block) { SetByte(block, 0, 127 - 7); }

}  // namespace meshseal::runtime
