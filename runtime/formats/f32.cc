// f32: one element a block.
#include <cstddef>

#include "runtime/formats/block_bits.h"

namespace meshseal::runtime {

void DecodeF32(const std::byte* block, float* out) { std::memcpy(out, block, sizeof(*out)); }

const char* FaultOfF32(const std::byte*) { return nullptr; }

}  // namespace meshseal::runtime
