#include "runtime/formats/iq2_xxs.h"

#include <cstddef>

namespace meshseal::runtime {

const char* FaultOfIq2Xxs(const std::byte* block) { return FaultOfHalf(block, 0); }

void TameIq2Xxs(std::byte* block) { SetHalf(block, 0, -10); }

}  // namespace meshseal::runtime
