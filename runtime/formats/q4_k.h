// q4_k: a super-block of 256 codes of four bits in eight groups, each with a scale and a minimum of six bits.
#ifndef MESHSEAL_RUNTIME_FORMATS_Q4_K_H_
#define MESHSEAL_RUNTIME_FORMATS_Q4_K_H_

#include <cstddef>
#include <cstdint>

#include "runtime/formats/block_bits.h"
#include "runtime/formats/planes.h"

namespace meshseal::runtime {

// Of a group's scale and minimum and eight codes.
MESHSEAL_HOST_DEVICE inline void ValuesOfQ4K(const GroupScales& of_group, uint64_t codes, float* out) {
  for (uint32_t i = 0; i < 8; ++i)
    out[i] = ProductLess(of_group.scale, static_cast<float>(ByteOf(codes, i)), of_group.min);
}

// Eight codes of a block, a byte each; `first` is a multiple of 8.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline uint64_t CodesOfQ4K(const std::byte* block, uint32_t first) {
  return NibblesOf(EightBytesAt<kAlignment>(block, 16 + first / 64 * 32 + first % 32), first / 32 % 2 == 1);
}

// Elements [first, first + 8) of a block; `first` is a multiple of 8.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline void EightOfQ4K(const std::byte* block, uint32_t first, float* out) {
  ValuesOfQ4K(GroupScalesAt<kAlignment>(block, first / 32), CodesOfQ4K<kAlignment>(block, first), out);
}

struct PlanesOfQ4K {
  static constexpr Plane kPlanes[] = {CodesPlane(4), BytesPlane(256, 16, 0)};
  static uint64_t Codes(const std::byte* block, uint32_t first) { return CodesOfQ4K(block, first); }
  MESHSEAL_INTO_CALLER static void Values(const PlaneElements& of, uint32_t first, float* out) {
    ValuesOfQ4K(GroupScalesIn(of, 1, first / 32), of.Codes<4>(0), out);
  }
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_FORMATS_Q4_K_H_
