#include "runtime/formats/q2_k.h"

#include <cstddef>

namespace meshseal::runtime {

const char* FaultOfQ2K(const std::byte* block) { return FaultOfHalves(block, 80, 82); }

void TameQ2K(std::byte* block) {
  SetHalf(block, 80, -9);
  SetHalf(block, 82, -9);
}

}  // namespace meshseal::runtime
