#include "runtime/formats/f8_e4m3.h"

#include <cstddef>

namespace meshseal::runtime {

const char* FaultOfF8E4M3(const std::byte*) { return nullptr; }

void TameF8E4M3(std::byte* block) {
  if ((ByteAt(block, 0) & 0x7Fu) == 0x7F) SetByte(block, 0, 0x7E);  // no NaN
}

}  // namespace meshseal::runtime
