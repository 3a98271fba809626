// q5_k: as q4_k, with a fifth bit of each code in a plane of its own.
#ifndef MESHSEAL_RUNTIME_FORMATS_Q5_K_H_
#define MESHSEAL_RUNTIME_FORMATS_Q5_K_H_

#include <cstddef>
#include <cstdint>

#include "runtime/formats/block_bits.h"
#include "runtime/formats/planes.h"
#include "runtime/formats/q4_k.h"

namespace meshseal::runtime {

// Eight codes of a block, a byte each; `first` is a multiple of 8.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline uint64_t CodesOfQ5K(const std::byte* block, uint32_t first) {
  const uint32_t group = first / 32;
  const uint64_t low = NibblesOf(EightBytesAt<kAlignment>(block, 48 + first / 64 * 32 + first % 32), group % 2 == 1);
  const uint64_t high = (EightBytesAt<kAlignment>(block, 16 + first % 32) >> group) & 0x0101010101010101u;
  return low | high << 4;
}

// Elements [first, first + 8) of a block; `first` is a multiple of 8.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline void EightOfQ5K(const std::byte* block, uint32_t first, float* out) {
  ValuesOfQ4K(GroupScalesAt<kAlignment>(block, first / 32), CodesOfQ5K<kAlignment>(block, first), out);
}

struct PlanesOfQ5K {
  static constexpr Plane kPlanes[] = {CodesPlane(4), CodesPlane(1, 4), BytesPlane(256, 16, 0)};
  static uint64_t Codes(const std::byte* block, uint32_t first) { return CodesOfQ5K(block, first); }
  MESHSEAL_INTO_CALLER static void Values(const PlaneElements& of, uint32_t first, float* out) {
    ValuesOfQ4K(GroupScalesIn(of, 2, first / 32), of.Codes<4>(0) | of.Codes<1>(1) << 4, out);
  }
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_FORMATS_Q5_K_H_
