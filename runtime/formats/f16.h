// f16: one element a block.
#ifndef MESHSEAL_RUNTIME_FORMATS_F16_H_
#define MESHSEAL_RUNTIME_FORMATS_F16_H_

#include <cstddef>
#include <cstdint>

#include "runtime/formats/block_bits.h"

namespace meshseal::runtime {

// The number that an element's bits stand for.
MESHSEAL_HOST_DEVICE inline float NumberOfF16(uint32_t bits) { return HalfNumber(static_cast<uint16_t>(bits)); }

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_FORMATS_F16_H_
