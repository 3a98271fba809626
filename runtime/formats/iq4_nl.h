// iq4_nl: as q4_0, with codes that stand for unequal steps.
#ifndef MESHSEAL_RUNTIME_FORMATS_IQ4_NL_H_
#define MESHSEAL_RUNTIME_FORMATS_IQ4_NL_H_

#include <cstddef>
#include <cstdint>

#include "runtime/formats/block_bits.h"
#include "runtime/formats/planes.h"

namespace meshseal::runtime {

// Of a scale and eight codes.
MESHSEAL_HOST_DEVICE inline void ValuesOfIq4Nl(float d, uint64_t codes, float* out) {
  for (uint32_t i = 0; i < 8; ++i) out[i] = d * NonLinear(ByteOf(codes, i));
}

// Eight codes of a block, a byte each; `first` is a multiple of 8.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline uint64_t CodesOfIq4Nl(const std::byte* block, uint32_t first) {
  return NibblesOf(EightBytesAt<kAlignment>(block, 2 + first % 16), first >= 16);
}

// Elements [first, first + 8) of a block; `first` is a multiple of 8.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline void EightOfIq4Nl(const std::byte* block, uint32_t first, float* out) {
  ValuesOfIq4Nl(F16At<kAlignment>(block, 0), CodesOfIq4Nl<kAlignment>(block, first), out);
}

struct PlanesOfIq4Nl {
  static constexpr Plane kPlanes[] = {CodesPlane(4), BytesPlane(32, 2, 0)};
  static uint64_t Codes(const std::byte* block, uint32_t first) { return CodesOfIq4Nl(block, first); }
  MESHSEAL_INTO_CALLER static void Values(const PlaneElements& of, uint32_t, float* out) {
    ValuesOfIq4Nl(of.Half(1), of.Codes<4>(0), out);
  }
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_FORMATS_IQ4_NL_H_
