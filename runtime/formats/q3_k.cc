#include "runtime/formats/q3_k.h"

#include <cstddef>

namespace meshseal::runtime {

const char* FaultOfQ3K(const std::byte* block) { return FaultOfHalf(block, 108); }

void TameQ3K(std::byte* block) { SetHalf(block, 108, -10); }

}  // namespace meshseal::runtime
