#include "runtime/formats/q4_k.h"

#include <cstddef>

namespace meshseal::runtime {

const char* FaultOfQ4K(const std::byte* block) { return FaultOfHalves(block, 0, 2); }

void TameQ4K(std::byte* block) {
  SetHalf(block, 0, -13);
  SetHalf(block, 2, -10);
}

}  // namespace meshseal::runtime
