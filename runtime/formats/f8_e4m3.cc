// f8_e4m3: one element a block; its scales are a tensor of their own.
#include <cstddef>

#include "runtime/formats/block_bits.h"

namespace meshseal::runtime {

void DecodeF8E4M3(const std::byte* block, float* out) { *out = static_cast<float>(E4M3(ByteAt(block, 0))); }

const char* FaultOfF8E4M3(const std::byte*) { return nullptr; }

void TameF8E4M3(std::byte* block) {
  if ((ByteAt(block, 0) & 0x7Fu) == 0x7F) SetByte(block, 0, 0x7E);  // no NaN
}

}  // namespace meshseal::runtime
