// iq4_xs: a super-block of 256 codes of iq4_nl in eight groups, each with a scale of six bits around 32.
#ifndef MESHSEAL_RUNTIME_FORMATS_IQ4_XS_H_
#define MESHSEAL_RUNTIME_FORMATS_IQ4_XS_H_

#include <cstddef>
#include <cstdint>

#include "runtime/formats/block_bits.h"
#include "runtime/formats/planes.h"

namespace meshseal::runtime {

// The scale of 32 neighbours: six bits around 32, of which the block has the lower four and the upper two apart.
MESHSEAL_HOST_DEVICE inline int ScaleOfIq4Xs(unsigned lower_byte, unsigned uppers, uint32_t group) {
  const unsigned low = Nibble(lower_byte, group % 2 == 1);
  const unsigned high = uppers >> (2 * group) & 3u;
  return static_cast<int>(low | high << 4) - 32;
}

// Of the block's scale, that of the 32 and eight codes.
MESHSEAL_HOST_DEVICE inline void ValuesOfIq4Xs(float d, int scale_code, uint64_t codes, float* out) {
  const float scale = d * static_cast<float>(scale_code);
  for (uint32_t i = 0; i < 8; ++i) out[i] = scale * NonLinear(ByteOf(codes, i));
}

// Eight codes of a block, a byte each; `first` is a multiple of 8.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline uint64_t CodesOfIq4Xs(const std::byte* block, uint32_t first) {
  return NibblesOf(EightBytesAt<kAlignment>(block, 8 + first / 32 * 16 + first % 16), first % 32 >= 16);
}

// Elements [first, first + 8) of a block; `first` is a multiple of 8.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline void EightOfIq4Xs(const std::byte* block, uint32_t first, float* out) {
  const uint32_t group = first / 32;
  const int scale = ScaleOfIq4Xs(ByteAt(block, 4 + group / 2), LoadAs<uint16_t, kAlignment>(block + 2), group);
  ValuesOfIq4Xs(F16At<kAlignment>(block, 0), scale, CodesOfIq4Xs<kAlignment>(block, first), out);
}

struct PlanesOfIq4Xs {
  static constexpr Plane kPlanes[] = {CodesPlane(4), BytesPlane(256, 8, 0)};
  static uint64_t Codes(const std::byte* block, uint32_t first) { return CodesOfIq4Xs(block, first); }
  MESHSEAL_INTO_CALLER static void Values(const PlaneElements& of, uint32_t first, float* out) {
    const uint32_t group = first / 32;
    const int scale = ScaleOfIq4Xs(of.Byte(1, 0, 4 + group / 2), of.words[1][0] >> 16, group);
    ValuesOfIq4Xs(of.Half(1), scale, of.Codes<4>(0), out);
  }
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_FORMATS_IQ4_XS_H_
