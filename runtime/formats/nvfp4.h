// nvfp4: 64 codes of E2M1 in four groups, each behind an unsigned E4M3 scale; in a group, code k shares its byte with
// code k + 8.
#ifndef MESHSEAL_RUNTIME_FORMATS_NVFP4_H_
#define MESHSEAL_RUNTIME_FORMATS_NVFP4_H_

#include <cstddef>
#include <cstdint>

#include "runtime/formats/block_bits.h"
#include "runtime/formats/planes.h"

namespace meshseal::runtime {

// Of the code of a scale and eight codes.
MESHSEAL_HOST_DEVICE inline void ValuesOfNvfp4(unsigned scale_code, uint64_t codes, float* out) {
  const float scale = E4M3(scale_code);
  for (uint32_t i = 0; i < 8; ++i) out[i] = scale * E2M1(ByteOf(codes, i));
}

// Eight codes of a block, a byte each; `first` is a multiple of 8.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline uint64_t CodesOfNvfp4(const std::byte* block, uint32_t first) {
  return NibblesOf(EightBytesAt<kAlignment>(block, 4 + 8 * (first / 16)), first % 16 >= 8);
}

// Elements [first, first + 8) of a block; `first` is a multiple of 8.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline void EightOfNvfp4(const std::byte* block, uint32_t first, float* out) {
  ValuesOfNvfp4(ByteAt(block, first / 16), CodesOfNvfp4<kAlignment>(block, first), out);
}

struct PlanesOfNvfp4 {
  static constexpr Plane kPlanes[] = {CodesPlane(4), BytesPlane(16, 1, 0)};
  static uint64_t Codes(const std::byte* block, uint32_t first) { return CodesOfNvfp4(block, first); }
  MESHSEAL_INTO_CALLER static void Values(const PlaneElements& of, uint32_t, float* out) {
    ValuesOfNvfp4(of.Byte(1, 0, 0), of.Codes<4>(0), out);
  }
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_FORMATS_NVFP4_H_
