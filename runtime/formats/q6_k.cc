#include "runtime/formats/q6_k.h"

#include <cstddef>

namespace meshseal::runtime {

const char* FaultOfQ6K(const std::byte* block) { return FaultOfHalf(block, 208); }

void TameQ6K(std::byte* block) { SetHalf(block, 208, -15); }

}  // namespace meshseal::runtime
