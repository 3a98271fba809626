// q3_k: a super-block of 256 codes of three bits around 4, the upper bit in a plane of its own, and a scale of six bits
// around 32 for each 16.
#ifndef MESHSEAL_RUNTIME_FORMATS_Q3_K_H_
#define MESHSEAL_RUNTIME_FORMATS_Q3_K_H_

#include <cstddef>
#include <cstdint>

#include "runtime/formats/block_bits.h"
#include "runtime/formats/planes.h"

namespace meshseal::runtime {

// The scale of sixteen neighbours: six bits around 32; byte_at gives each of a block's twelve bytes of them.
template <class Bytes>
MESHSEAL_HOST_DEVICE inline int ScaleOfQ3K(const Bytes& byte_at, uint32_t group) {
  const unsigned low = Nibble(byte_at(group % 8), group >= 8);
  const unsigned high = (byte_at(8 + group % 4) >> (2 * (group / 4))) & 3u;
  return static_cast<int>(low | high << 4) - 32;
}

// Of the block's scale, that of the sixteen and eight codes.
MESHSEAL_HOST_DEVICE inline void ValuesOfQ3K(float d, int scale_code, uint64_t codes, float* out) {
  const float scale = d * static_cast<float>(scale_code);
  for (uint32_t i = 0; i < 8; ++i) out[i] = scale * static_cast<float>(static_cast<int>(ByteOf(codes, i)) - 4);
}

// Eight codes of a block, a byte each; `first` is a multiple of 8.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline uint64_t CodesOfQ3K(const std::byte* block, uint32_t first) {
  const uint64_t low =
      PairsOf(EightBytesAt<kAlignment>(block, 32 + first / 128 * 32 + first % 32), 2 * (first % 128 / 32));
  const uint64_t high = (EightBytesAt<kAlignment>(block, first % 32) >> (first / 32)) & 0x0101010101010101u;
  return low | high << 2;
}

// Elements [first, first + 8) of a block; `first` is a multiple of 8.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline void EightOfQ3K(const std::byte* block, uint32_t first, float* out) {
  const int scale = ScaleOfQ3K([block](uint32_t i) { return ByteAt(block, 96 + i); }, first / 16);
  ValuesOfQ3K(F16At<kAlignment>(block, 108), scale, CodesOfQ3K<kAlignment>(block, first), out);
}

struct PlanesOfQ3K {
  static constexpr Plane kPlanes[] = {CodesPlane(2), CodesPlane(1, 2), BytesPlane(256, 12, 96),
                                      BytesPlane(256, 2, 108)};
  static uint64_t Codes(const std::byte* block, uint32_t first) { return CodesOfQ3K(block, first); }
  MESHSEAL_INTO_CALLER static void Values(const PlaneElements& of, uint32_t first, float* out) {
    const int scale = ScaleOfQ3K([&of](uint32_t i) { return of.Byte(2, 0, i); }, first / 16);
    ValuesOfQ3K(of.Half(3), scale, of.Codes<2>(0) | of.Codes<1>(1) << 2, out);
  }
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_FORMATS_Q3_K_H_
