// f8_e4m3: one element a block; its scales are a tensor of their own.
#ifndef MESHSEAL_RUNTIME_FORMATS_F8_E4M3_H_
#define MESHSEAL_RUNTIME_FORMATS_F8_E4M3_H_

#include <cstddef>
#include <cstdint>

#include "runtime/formats/block_bits.h"

namespace meshseal::runtime {

// The number that an element's bits stand for.
MESHSEAL_HOST_DEVICE inline float NumberOfF8E4M3(uint32_t bits) { return E4M3(bits); }

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_FORMATS_F8_E4M3_H_
