// The planes that a repacked matrix is made of, and an element of each; internal to runtime/formats. repacked.h says
// how they lie.
#ifndef MESHSEAL_RUNTIME_FORMATS_PLANES_H_
#define MESHSEAL_RUNTIME_FORMATS_PLANES_H_

#include <cstddef>
#include <cstdint>

#include "runtime/formats/block_bits.h"
#include "runtime/host_device.h"

namespace meshseal::runtime {

inline constexpr uint32_t kMostPlanes = 4;

// An element of `bytes` bytes for each `columns` of a row.
struct Plane {
  uint32_t columns;
  uint32_t bytes;
  // Codes: `bytes` bits of each of eight codes, from bit `from` on. Else bytes as they stand in the block: element i's
  // are those from byte from + i * bytes on.
  bool of_codes;
  uint32_t from;
};
constexpr Plane CodesPlane(uint32_t bits, uint32_t from_bit = 0) { return {8, bits, true, from_bit}; }
constexpr Plane BytesPlane(uint32_t columns, uint32_t bytes, uint32_t from) { return {columns, bytes, false, from}; }

// `bits` bits of each of eight codes, a byte each, from bit `from` on: those of all in the lowest 8 * bits. SpreadCodes
// is the way back.
inline uint64_t GatherCodes(uint32_t bits, uint32_t from, uint64_t codes) {
  codes = codes >> from & 0x0101010101010101u * ((1u << bits) - 1);
  const auto low = static_cast<uint32_t>(codes);  // of the first four
  const auto high = static_cast<uint32_t>(codes >> 32);
  if (bits == 8) return codes;
  if (bits == 4) return low | high << 4;
  if (bits == 2) {  // a nibble has two codes that are four apart
    const uint32_t nibbles = low | high << 2;
    const uint32_t pairs = (nibbles | nibbles >> 4) & 0x00FF00FFu;
    return (pairs | pairs >> 8) & 0xFFFFu;
  }
  uint64_t gathered = 0;
  for (uint32_t i = 0; i < 8; ++i) gathered |= (codes >> (8 * i) & 1u) << i;
  return gathered;
}
template <uint32_t kBits>
MESHSEAL_INTO_CALLER uint64_t SpreadCodes(uint32_t word, uint32_t next_word) {
  static_assert(kBits == 8 || kBits == 4 || kBits == 2 || kBits == 1);
  uint32_t low = word;
  uint32_t high = next_word;
  if constexpr (kBits == 4) {
    low = word & 0x0F0F0F0Fu;
    high = word >> 4 & 0x0F0F0F0Fu;
  }
  if constexpr (kBits == 2) {
    const uint32_t pairs = (word | word << 8) & 0x00FF00FFu;
    const uint32_t nibbles = (pairs | pairs << 4) & 0x0F0F0F0Fu;
    low = nibbles & 0x03030303u;
    high = nibbles >> 2 & 0x03030303u;
  }
  if constexpr (kBits == 1) {  // a bit's copy 7 further is the lowest of the next byte
    low = (word & 15u) * 0x00204081u & 0x01010101u;
    high = (word >> 4 & 15u) * 0x00204081u & 0x01010101u;
  }
  return low | uint64_t{high} << 32;
}

// What the planes have for eight neighbours of a row: an element of each, in words that begin with its first byte.
struct PlaneElements {
  uint32_t words[kMostPlanes][4];

  // Eight codes of a plane of `kBits` bits each, a byte each.
  template <uint32_t kBits>
  MESHSEAL_HOST_DEVICE uint64_t Codes(uint32_t plane) const {
    return SpreadCodes<kBits>(words[plane][0], words[plane][1]);
  }
  // The half at a multiple of 2.
  MESHSEAL_HOST_DEVICE float Half(uint32_t plane, uint32_t at = 0) const {
    return HalfNumber(static_cast<uint16_t>(words[plane][at / 4] >> (8 * (at % 4))));
  }
  // A byte, from 4 * first_word to three words further. Its place need be no constant: no array is indexed by it.
  MESHSEAL_HOST_DEVICE unsigned Byte(uint32_t plane, uint32_t first_word, uint32_t at) const {
    const uint32_t* const its = words[plane];
    const uint32_t word = at < 4 ? its[first_word] : at < 8 ? its[first_word + 1] : its[first_word + 2];
    return word >> (8 * (at % 4)) & 0xFFu;
  }
};

// GroupScalesAt of a plane's element, the 16 bytes in front of a block of q4_k or q5_k.
MESHSEAL_INTO_CALLER GroupScales GroupScalesIn(const PlaneElements& of, uint32_t plane, uint32_t group) {
  const ScaleAndMin six = SixBits([&of, plane](uint32_t i) { return of.Byte(plane, 1, i); }, group);
  return {of.Half(plane, 0) * static_cast<float>(six.scale), of.Half(plane, 2) * static_cast<float>(six.min)};
}

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_FORMATS_PLANES_H_
