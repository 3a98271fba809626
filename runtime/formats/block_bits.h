// Bits and numbers inside a block; internal to runtime/formats. What reads is for host and device.
#ifndef MESHSEAL_RUNTIME_FORMATS_BLOCK_BITS_H_
#define MESHSEAL_RUNTIME_FORMATS_BLOCK_BITS_H_

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "runtime/host_device.h"
#include "schema/float_bits.h"

namespace meshseal::runtime {

static_assert(std::endian::native == std::endian::little, "blocks are little-endian and decoded in place");

// Byte `at` of a block, as a number.
MESHSEAL_HOST_DEVICE inline unsigned ByteAt(const std::byte* block, size_t at) {
  return static_cast<unsigned>(block[at]);
}
inline void SetByte(std::byte* block, size_t at, unsigned value) { block[at] = static_cast<std::byte>(value); }
MESHSEAL_HOST_DEVICE inline int SignedByteAt(const std::byte* block, size_t at) {
  return static_cast<int8_t>(ByteAt(block, at));
}

// The T at `bytes`, which lie at a multiple of kAlignment. A device reads as much at once as that allows; 1 is any
// place, and it looks how much that allows there.
template <class T, uint32_t kAlignment>
MESHSEAL_HOST_DEVICE inline T LoadAs(const std::byte* bytes) {
  T value{};
#if defined(__CUDA_ARCH__)
  if constexpr (kAlignment >= sizeof(T)) {
    value = *reinterpret_cast<const T*>(bytes);
  } else if constexpr (kAlignment >= 2) {
    using Piece = std::conditional_t<kAlignment == 4, uint32_t, uint16_t>;
    MESHSEAL_UNROLL
    for (uint32_t i = 0; i < sizeof(T) / sizeof(Piece); ++i) {
      value |= static_cast<T>(T{*reinterpret_cast<const Piece*>(bytes + sizeof(Piece) * i)} << (8 * sizeof(Piece) * i));
    }
  } else if (const auto place = reinterpret_cast<uintptr_t>(bytes); place % sizeof(T) == 0) {
    value = LoadAs<T, sizeof(T)>(bytes);
  } else if (sizeof(T) > 2 && place % 2 == 0) {
    value = LoadAs<T, 2>(bytes);
  } else {
    MESHSEAL_NO_UNROLL
    for (uint32_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(static_cast<T>(ByteAt(bytes, i)) << (8 * i));
  }
#else
  std::memcpy(&value, bytes, sizeof(value));
#endif
  return value;
}

// The number of a half's bits. A device has an instruction for it; of a NaN it keeps no more than that it is one.
MESHSEAL_HOST_DEVICE inline float HalfNumber(uint16_t bits) {
#if defined(__CUDA_ARCH__)
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#else
  return F16ToFloat(bits);
#endif
}

// The half at `at`.
template <uint32_t kAlignment = 1>
MESHSEAL_HOST_DEVICE inline float F16At(const std::byte* block, size_t at) {
  return HalfNumber(LoadAs<uint16_t, kAlignment>(block + at));
}

// Eight bytes, and what they hold for eight neighbours: a byte for each.
template <uint32_t kAlignment>
MESHSEAL_HOST_DEVICE inline uint64_t EightBytesAt(const std::byte* block, size_t at) {
  return LoadAs<uint64_t, kAlignment>(block + at);
}
MESHSEAL_HOST_DEVICE inline unsigned ByteOf(uint64_t eight, uint32_t i) {
  return static_cast<unsigned>(eight >> (8 * i)) & 0xFFu;
}

// Of each of eight bytes its lower four bits, or the upper ones.
MESHSEAL_HOST_DEVICE inline uint64_t NibblesOf(uint64_t eight, bool upper) {
  return (upper ? eight >> 4 : eight) & 0x0F0F0F0F0F0F0F0Fu;
}
// Of each of eight bytes two bits, from bit `shift` on.
MESHSEAL_HOST_DEVICE inline uint64_t PairsOf(uint64_t eight, uint32_t shift) {
  return (eight >> shift) & 0x0303030303030303u;
}

// The lower four bits of a byte, or the upper ones.
MESHSEAL_HOST_DEVICE inline unsigned Nibble(unsigned byte, bool upper) { return upper ? byte >> 4 : byte & 15u; }

// a * b - c. The product has to be exact, so that it does not matter whether it is rounded.
MESHSEAL_HOST_DEVICE inline float ProductLess(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return fmaf(a, b, -c);
#else
  return a * b - c;
#endif
}

// Writes 2^exponent, at least -24, as a half.
inline void SetHalf(std::byte* block, size_t at, int exponent) {
  const int bits = exponent >= -14 ? (exponent + 15) << 10 : 1 << (exponent + 24);
  SetByte(block, at, static_cast<unsigned>(bits) & 0xFFu);
  SetByte(block, at + 1, static_cast<unsigned>(bits) >> 8);
}

inline constexpr const char* kScaleNotFinite = "its scale is not finite";

inline const char* FaultOfHalf(const std::byte* block, size_t at) {
  return std::isfinite(F16At(block, at)) ? nullptr : kScaleNotFinite;
}

// Of a block with a scale and a scale of its minima.
inline const char* FaultOfHalves(const std::byte* block, size_t scale, size_t min_scale) {
  const char* const fault = FaultOfHalf(block, scale);
  return fault != nullptr ? fault : FaultOfHalf(block, min_scale);
}

// Eight scales and eight minima of six bits each, as q4_k and q5_k store them in 12 bytes; byte_at gives each of these.
struct ScaleAndMin {
  unsigned scale = 0;
  unsigned min = 0;
};
template <class Bytes>
MESHSEAL_HOST_DEVICE inline ScaleAndMin SixBits(const Bytes& byte_at, uint32_t j) {
  if (j < 4) return {byte_at(j) & 63u, byte_at(j + 4) & 63u};
  const unsigned low = byte_at(j + 4);
  return {(low & 15u) | ((byte_at(j - 4) >> 6) << 4), (low >> 4) | ((byte_at(j) >> 6) << 4)};
}

// Scale and minimum of a group of such a block, each times the block's own.
struct GroupScales {
  float scale = 0;
  float min = 0;
};
template <uint32_t kAlignment>
MESHSEAL_HOST_DEVICE inline GroupScales GroupScalesAt(const std::byte* block, uint32_t group) {
  const ScaleAndMin six = SixBits([block](uint32_t i) { return ByteAt(block, 4 + i); }, group);
  return {F16At<kAlignment>(block, 0) * static_cast<float>(six.scale),
          F16At<kAlignment>(block, 2) * static_cast<float>(six.min)};
}

// 2^(code - 127), E8M0. Code 255, which is no number, gives infinity.
MESHSEAL_HOST_DEVICE inline float E8M0(unsigned code) {
  return std::bit_cast<float>(code == 0 ? 0x00400000u : code << 23);
}

// The value of a code of iq4_nl and iq4_xs. The table is two constants, of which a device keeps nothing in memory.
MESHSEAL_HOST_DEVICE inline float NonLinear(unsigned code) {
  // -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113
  constexpr uint64_t kLow = 0xF6EADDCFBFAD9881u;
  constexpr uint64_t kHigh = 0x7159453526190D01u;
  return static_cast<float>(static_cast<int8_t>(ByteOf(code < 8 ? kLow : kHigh, code % 8)));
}

// The value of a code of E2M1: 0, 0.5, 1, 1.5, 2, 3, 4, 6, and the same with a sign. A half has its bits and 14 more in
// the bias.
MESHSEAL_HOST_DEVICE inline float E2M1(unsigned code) {
  return HalfNumber(static_cast<uint16_t>((code & 8u) << 12 | (code & 7u) << 9)) * 0x1p14f;
}

// E4M3 without infinities ("FN"): 1 sign, 4 exponent and 3 mantissa bits. Code 0x7F, either sign, is NaN. A half has
// its bits and 8 more in the bias.
MESHSEAL_HOST_DEVICE inline float E4M3(unsigned code) {
  if ((code & 0x7Fu) == 0x7F) return std::bit_cast<float>(0x7FC00000u);
  return HalfNumber(static_cast<uint16_t>((code & 0x80u) << 8 | (code & 0x7Fu) << 7)) * 0x1p8f;
}

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_FORMATS_BLOCK_BITS_H_
