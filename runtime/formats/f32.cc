// f32: one element a block.
#include <cstddef>

#include "runtime/formats/block_bits.h"

namespace meshseal::runtime {

void DecodeF32(const std::byte* block, float* out) { std::memcpy(out, block, sizeof(*out)); }

const char* FaultOfF32(const std::byte*) { return nullptr; }

void TameF32(std::byte* block) {
  // Sign and fraction stay, the exponent becomes one of -8 to -5.
  const unsigned exponent = 119 + (ByteAt(block, 3) & 3u);
  SetByte(block, 3, (ByteAt(block, 3) & 0x80u) | exponent >> 1);
  SetByte(block, 2, (ByteAt(block, 2) & 0x7Fu) | (exponent & 1u) << 7);
}

}  // namespace meshseal::runtime
