// bf16: one element a block.
#include <cstddef>

#include "runtime/formats/block_bits.h"

namespace meshseal::runtime {

void DecodeBf16(const std::byte* block, float* out) { *out = Bf16ToFloat(HalfBits(block, 0)); }

const char* FaultOfBf16(const std::byte*) { return nullptr; }

}  // namespace meshseal::runtime
