// q8_0: a scale and 32 signed bytes.
#include <cstddef>

#include "runtime/formats/block_bits.h"

namespace meshseal::runtime {

void DecodeQ8_0(const std::byte* block, float* out) {
  const double d = F16At(block, 0);
  for (size_t i = 0; i < 32; ++i) out[i] = static_cast<float>(d * SignedByteAt(block, 2 + i));
}

const char* FaultOfQ8_0(const std::byte* block) { return FaultOfHalf(block, 0); }

void TameQ8_0(std::byte* block) { SetHalf(block, 0, -11); }

}  // namespace meshseal::runtime
