#include "runtime/formats/f32.h"

#include <cstddef>

namespace meshseal::runtime {

const char* FaultOfF32(const std::byte*) { return nullptr; }

void TameF32(std::byte* block) {
  // Sign and fraction stay, the exponent becomes one of -8 to -5.
  const unsigned exponent = 119 + (ByteAt(block, 3) & 3u);
  SetByte(block, 3, (ByteAt(block, 3) & 0x80u) | exponent >> 1);
  SetByte(block, 2, (ByteAt(block, 2) & 0x7Fu) | (exponent & 1u) << 7);
}

}  // namespace meshseal::runtime
