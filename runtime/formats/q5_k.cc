#include "runtime/formats/q5_k.h"

#include <cstddef>

namespace meshseal::runtime {

const char* FaultOfQ5K(const std::byte* block) { return FaultOfHalves(block, 0, 2); }

void TameQ5K(std::byte* block) {
  SetHalf(block, 0, -14);
  SetHalf(block, 2, -10);
}

}  // namespace meshseal::runtime
