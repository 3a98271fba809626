// q2_k: a super-block of 256 codes of two bits, and a scale and a minimum of four bits for each 16.
#ifndef MESHSEAL_RUNTIME_FORMATS_Q2_K_H_
#define MESHSEAL_RUNTIME_FORMATS_Q2_K_H_

#include <cstddef>
#include <cstdint>

#include "runtime/formats/block_bits.h"
#include "runtime/formats/planes.h"

namespace meshseal::runtime {

// Of the block's scale and minimum, the codes of both of the sixteen, and eight codes.
MESHSEAL_HOST_DEVICE inline void ValuesOfQ2K(float d, float d_min, unsigned both, uint64_t codes, float* out) {
  const float scale = d * static_cast<float>(Nibble(both, false));
  const float min = d_min * static_cast<float>(Nibble(both, true));
  for (uint32_t i = 0; i < 8; ++i) out[i] = ProductLess(scale, static_cast<float>(ByteOf(codes, i)), min);
}

// Eight codes of a block, a byte each; `first` is a multiple of 8.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline uint64_t CodesOfQ2K(const std::byte* block, uint32_t first) {
  return PairsOf(EightBytesAt<kAlignment>(block, 16 + first / 128 * 32 + first % 32), 2 * (first % 128 / 32));
}

// Elements [first, first + 8) of a block; `first` is a multiple of 8.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline void EightOfQ2K(const std::byte* block, uint32_t first, float* out) {
  ValuesOfQ2K(F16At<kAlignment>(block, 80), F16At<kAlignment>(block, 82), ByteAt(block, first / 16),
              CodesOfQ2K<kAlignment>(block, first), out);
}

struct PlanesOfQ2K {
  static constexpr Plane kPlanes[] = {CodesPlane(2), BytesPlane(16, 1, 0), BytesPlane(256, 4, 80)};
  static uint64_t Codes(const std::byte* block, uint32_t first) { return CodesOfQ2K(block, first); }
  MESHSEAL_INTO_CALLER static void Values(const PlaneElements& of, uint32_t, float* out) {
    ValuesOfQ2K(of.Half(2), of.Half(2, 2), of.Byte(1, 0, 0), of.Codes<2>(0), out);
  }
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_FORMATS_Q2_K_H_
