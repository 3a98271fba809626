// q8_0: a scale and 32 signed bytes.
#ifndef MESHSEAL_RUNTIME_FORMATS_Q8_0_H_
#define MESHSEAL_RUNTIME_FORMATS_Q8_0_H_

#include <cstddef>
#include <cstdint>

#include "runtime/formats/block_bits.h"
#include "runtime/formats/planes.h"

namespace meshseal::runtime {

// Of a scale and eight codes.
MESHSEAL_HOST_DEVICE inline void ValuesOfQ8_0(float d, uint64_t codes, float* out) {
  for (uint32_t i = 0; i < 8; ++i) out[i] = d * static_cast<float>(static_cast<int8_t>(ByteOf(codes, i)));
}

// Eight codes of a block, a byte each; `first` is a multiple of 8.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline uint64_t CodesOfQ8_0(const std::byte* block, uint32_t first) {
  return EightBytesAt<kAlignment>(block, 2 + first);
}

// Elements [first, first + 8) of a block; `first` is a multiple of 8.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline void EightOfQ8_0(const std::byte* block, uint32_t first, float* out) {
  ValuesOfQ8_0(F16At<kAlignment>(block, 0), CodesOfQ8_0<kAlignment>(block, first), out);
}

struct PlanesOfQ8_0 {
  static constexpr Plane kPlanes[] = {CodesPlane(8), BytesPlane(32, 2, 0)};
  static uint64_t Codes(const std::byte* block, uint32_t first) { return CodesOfQ8_0(block, first); }
  MESHSEAL_INTO_CALLER static void Values(const PlaneElements& of, uint32_t, float* out) {
    ValuesOfQ8_0(of.Half(1), of.Codes<8>(0), out);
  }
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_FORMATS_Q8_0_H_
