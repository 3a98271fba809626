// q6_k: a super-block of 256 codes of six bits around 32, and a signed scale for each 16.
#ifndef MESHSEAL_RUNTIME_FORMATS_Q6_K_H_
#define MESHSEAL_RUNTIME_FORMATS_Q6_K_H_

#include <cstddef>
#include <cstdint>

#include "runtime/formats/block_bits.h"
#include "runtime/formats/planes.h"

namespace meshseal::runtime {

// Of the block's scale, that of the sixteen and eight codes.
MESHSEAL_HOST_DEVICE inline void ValuesOfQ6K(float d, int scale_code, uint64_t codes, float* out) {
  const float scale = d * static_cast<float>(scale_code);
  for (uint32_t i = 0; i < 8; ++i) out[i] = scale * static_cast<float>(static_cast<int>(ByteOf(codes, i)) - 32);
}

// Eight codes of a block, a byte each; `first` is a multiple of 8.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline uint64_t CodesOfQ6K(const std::byte* block, uint32_t first) {
  const uint32_t half = first / 128;
  const uint32_t group = first % 128 / 32;
  const uint64_t low = NibblesOf(EightBytesAt<kAlignment>(block, half * 64 + group % 2 * 32 + first % 32), group >= 2);
  const uint64_t high = PairsOf(EightBytesAt<kAlignment>(block, 128 + half * 32 + first % 32), 2 * group);
  return low | high << 4;
}

// Elements [first, first + 8) of a block; `first` is a multiple of 8.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline void EightOfQ6K(const std::byte* block, uint32_t first, float* out) {
  ValuesOfQ6K(F16At<kAlignment>(block, 208), SignedByteAt(block, 192 + first / 16),
              CodesOfQ6K<kAlignment>(block, first), out);
}

struct PlanesOfQ6K {
  static constexpr Plane kPlanes[] = {CodesPlane(4), CodesPlane(2, 4), BytesPlane(16, 1, 192), BytesPlane(256, 2, 208)};
  static uint64_t Codes(const std::byte* block, uint32_t first) { return CodesOfQ6K(block, first); }
  MESHSEAL_INTO_CALLER static void Values(const PlaneElements& of, uint32_t, float* out) {
    ValuesOfQ6K(of.Half(3), static_cast<int8_t>(of.Byte(2, 0, 0)), of.Codes<4>(0) | of.Codes<2>(1) << 4, out);
  }
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_FORMATS_Q6_K_H_
