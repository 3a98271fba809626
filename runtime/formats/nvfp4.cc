#include "runtime/formats/nvfp4.h"

#include <cstddef>

namespace meshseal::runtime {

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
