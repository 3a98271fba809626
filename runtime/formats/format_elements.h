// The rows of formats.def as types: how elements that lie one after the other are read, for host and device. This is
// the one definition of what stored bytes stand for.
//
// All arithmetic is float32 and gives what exact arithmetic, rounded once, would: a half has 11 significant bits, a
// group's scale at most 6 and a code at most 7, so that scale times scale and that times a code (22 bits, of iq4_xs and
// q6_k 23) are exact, and a difference of two such products is rounded once. Their exponents stay far from float32's
// ends; those of mxfp4 do not, where a code of two bits makes the product exact still, also below 2^-126.
#ifndef MESHSEAL_RUNTIME_FORMATS_FORMAT_ELEMENTS_H_
#define MESHSEAL_RUNTIME_FORMATS_FORMAT_ELEMENTS_H_

#include <cstddef>
#include <cstdint>

#include "runtime/formats/bf16.h"
#include "runtime/formats/block_bits.h"
#include "runtime/formats/f16.h"
#include "runtime/formats/f32.h"
#include "runtime/formats/f8_e4m3.h"
#include "runtime/formats/iq2_xxs.h"
#include "runtime/formats/iq4_nl.h"
#include "runtime/formats/iq4_xs.h"
#include "runtime/formats/mxfp4.h"
#include "runtime/formats/nvfp4.h"
#include "runtime/formats/q2_k.h"
#include "runtime/formats/q3_k.h"
#include "runtime/formats/q4_0.h"
#include "runtime/formats/q4_k.h"
#include "runtime/formats/q5_k.h"
#include "runtime/formats/q6_k.h"
#include "runtime/formats/q8_0.h"
#include "runtime/host_device.h"
#include "schema/dtype.h"

namespace meshseal::runtime {

struct BlockSize {
  uint32_t bytes;
  uint32_t elements;
};
constexpr BlockSize SizeOfBlock(DType dtype) {
  switch (dtype) {
#define MESHSEAL_DTYPE(enumerator, value, name, safetensors, gguf, bits, elements, packed, weight) \
  case DType::enumerator:                                                                          \
    return {(bits) / 8, elements};
#define MESHSEAL_REFUSED_DTYPE(safetensors)
#include "schema/dtypes.def"
#undef MESHSEAL_REFUSED_DTYPE
#undef MESHSEAL_DTYPE
    case DType::kInvalid:
      break;
  }
  return {0, 0};
}

// An element of kBytes bytes each.
template <uint32_t kBytes, float (*NumberOf)(uint32_t)>
struct ElementFormat {
  static constexpr BlockSize kBlock = {kBytes, 1};
  // What lets eight neighbours be loaded in as few pieces as a device can.
  static constexpr uint32_t kWidestAlignment = kBytes == 1 ? 8 : 16;

  template <uint32_t kAlignment = 1>
  MESHSEAL_HOST_DEVICE static float One(const std::byte* element) {
    uint32_t bits = 0;
    if constexpr (kBytes == 1) bits = ByteAt(element, 0);
    if constexpr (kBytes == 2) bits = LoadAs<uint16_t, kAlignment>(element);
    if constexpr (kBytes == 4) bits = LoadAs<uint32_t, kAlignment>(element);
    return NumberOf(bits);
  }

  // Elements [first, first + 8) of `run`, which lies at a multiple of kAlignment; `first` is a multiple of 8.
  template <uint32_t kAlignment = 1>
  MESHSEAL_HOST_DEVICE static void Eight(const std::byte* run, uint32_t first, float* out) {
    const std::byte* const at = run + uint64_t{first} * kBytes;
    uint64_t words[kBytes];
    if constexpr (kBytes > 1 && kAlignment == 16) {
      struct alignas(16) Pair {
        uint64_t words[2];
      };
      for (uint32_t i = 0; i < kBytes; i += 2) {
        const auto pair = LoadAs<Pair, 16>(at + uint64_t{i} * 8);
        words[i] = pair.words[0];
        words[i + 1] = pair.words[1];
      }
    } else {
      for (uint32_t i = 0; i < kBytes; ++i) words[i] = LoadAs<uint64_t, kAlignment>(at + uint64_t{i} * 8);
    }
    constexpr uint32_t kInWord = 8 / kBytes;
    constexpr uint64_t kMask = (uint64_t{1} << (8 * kBytes)) - 1;
    for (uint32_t i = 0; i < 8; ++i) {
      out[i] = NumberOf(static_cast<uint32_t>(words[i / kInWord] >> (8 * kBytes * (i % kInWord)) & kMask));
    }
  }
};

// The largest power of two, up to 16, that divides a block's size.
constexpr uint32_t AlignmentOfBlocks(DType dtype) {
  uint32_t alignment = 16;
  while (SizeOfBlock(dtype).bytes % alignment != 0) alignment /= 2;
  return alignment;
}

// DType -> how it is read: kBlock, kWidestAlignment and Eight as of ElementFormat.
template <DType dtype>
struct FormatElements;

#define MESHSEAL_ELEMENT_FORMAT(dtype, Name) \
  template <>                                \
  struct FormatElements<DType::dtype> : ElementFormat<SizeOfBlock(DType::dtype).bytes, &NumberOf##Name> {};
#define MESHSEAL_BLOCK_FORMAT(dtype, Name)                                                                             \
  template <>                                                                                                          \
  struct FormatElements<DType::dtype> {                                                                                \
    static constexpr BlockSize kBlock = SizeOfBlock(DType::dtype);                                                     \
    static constexpr uint32_t kWidestAlignment = AlignmentOfBlocks(DType::dtype);                                      \
    template <uint32_t kAlignment = 1>                                                                                 \
    MESHSEAL_HOST_DEVICE static void Eight(const std::byte* run, uint32_t first, float* out) {                         \
      EightOf##Name<kAlignment>(run + uint64_t{first / kBlock.elements} * kBlock.bytes, first % kBlock.elements, out); \
    }                                                                                                                  \
  };
#include "runtime/formats/formats.def"
#undef MESHSEAL_BLOCK_FORMAT
#undef MESHSEAL_ELEMENT_FORMAT

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_FORMATS_FORMAT_ELEMENTS_H_
