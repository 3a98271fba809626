#include "runtime/formats/iq4_xs.h"

#include <cstddef>

namespace meshseal::runtime {

const char* FaultOfIq4Xs(const std::byte* block) { return FaultOfHalf(block, 0); }

void TameIq4Xs(std::byte* block) { SetHalf(block, 0, -15); }

}  // namespace meshseal::runtime
