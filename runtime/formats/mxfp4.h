// mxfp4: 32 codes of E2M1 behind one power of two (E8M0); code i shares its byte with code i + 16.
#ifndef MESHSEAL_RUNTIME_FORMATS_MXFP4_H_
#define MESHSEAL_RUNTIME_FORMATS_MXFP4_H_

#include <cstddef>
#include <cstdint>

#include "runtime/formats/block_bits.h"
#include "runtime/formats/planes.h"

namespace meshseal::runtime {

// Of the code of a power of two and eight codes.
MESHSEAL_HOST_DEVICE inline void ValuesOfMxfp4(unsigned power, uint64_t codes, float* out) {
  const float scale = E8M0(power);
  for (uint32_t i = 0; i < 8; ++i) out[i] = scale * E2M1(ByteOf(codes, i));
}

// Eight codes of a block, a byte each; `first` is a multiple of 8.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline uint64_t CodesOfMxfp4(const std::byte* block, uint32_t first) {
  return NibblesOf(EightBytesAt<kAlignment>(block, 1 + first % 16), first >= 16);
}

// Elements [first, first + 8) of a block; `first` is a multiple of 8.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline void EightOfMxfp4(const std::byte* block, uint32_t first, float* out) {
  ValuesOfMxfp4(ByteAt(block, 0), CodesOfMxfp4<kAlignment>(block, first), out);
}

struct PlanesOfMxfp4 {
  static constexpr Plane kPlanes[] = {CodesPlane(4), BytesPlane(32, 1, 0)};
  static uint64_t Codes(const std::byte* block, uint32_t first) { return CodesOfMxfp4(block, first); }
  MESHSEAL_INTO_CALLER static void Values(const PlaneElements& of, uint32_t, float* out) {
    ValuesOfMxfp4(of.Byte(1, 0, 0), of.Codes<4>(0), out);
  }
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_FORMATS_MXFP4_H_
