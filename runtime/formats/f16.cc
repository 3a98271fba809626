// f16: one element a block.
#include <cstddef>

#include "runtime/formats/block_bits.h"

namespace meshseal::runtime {

void DecodeF16(const std::byte* block, float* out) { *out = F16ToFloat(HalfBits(block, 0)); }

const char* FaultOfF16(const std::byte*) { return nullptr; }

}  // namespace meshseal::runtime
