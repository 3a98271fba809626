// nvfp4: 64 codes of E2M1 in four groups, each behind an unsigned E4M3 scale; in a group, code k shares its byte with
// code k + 8.
#include <cstddef>

#include "runtime/formats/block_bits.h"

namespace meshseal::runtime {

void DecodeNvfp4(const std::byte* block, float* out) {
  for (size_t i = 0; i < 64; ++i) {
    const size_t group = i / 16;
    const unsigned code = Nibble(ByteAt(block, 4 + 8 * group + i % 8), i % 16 >= 8);
    out[i] = static_cast<float>(E4M3(ByteAt(block, group)) * kE2M1[code]);
  }
}

const char* FaultOfNvfp4(const std::byte* block) {
  for (size_t group = 0; group < 4; ++group) {
    if (ByteAt(block, group) == 0x7F) return kScaleNotFinite;
    if (ByteAt(block, group) > 0x7F) return "its scale has a sign";
  }
  return nullptr;
}

void TameNvfp4(std::byte* block) {
  for (size_t group = 0; group < 4; ++group) SetByte(block, group, 0x06 + ByteAt(block, group) % 4);  // about 2^-6
}

}  // namespace meshseal::runtime
