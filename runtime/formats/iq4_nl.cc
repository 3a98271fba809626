#include "runtime/formats/iq4_nl.h"

#include <cstddef>

namespace meshseal::runtime {

const char* FaultOfIq4Nl(const std::byte* block) { return FaultOfHalf(block, 0); }

void TameIq4Nl(std::byte* block) { SetHalf(block, 0, -11); }

}  // namespace meshseal::runtime
