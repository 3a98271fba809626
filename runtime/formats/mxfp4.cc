#include "runtime/formats/mxfp4.h"

#include <cstddef>

namespace meshseal::runtime {

const char* FaultOfMxfp4(const std::byte* block) { return ByteAt(block, 0) == 255 ? kScaleNotFinite : nullptr; }

void TameMxfp4(std::byte* block) { SetByte(block, 0, 127 - 7); }

}  // namespace meshseal::runtime
