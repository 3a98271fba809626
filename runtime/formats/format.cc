#include "runtime/formats/format.h"

#include <array>

#include "runtime/formats/format_elements.h"

namespace meshseal::runtime {

// Two for each row, in the file named after it.
#define MESHSEAL_ELEMENT_FORMAT(dtype, Name)         \
  const char* FaultOf##Name(const std::byte* block); \
  void Tame##Name(std::byte* block);
#define MESHSEAL_BLOCK_FORMAT MESHSEAL_ELEMENT_FORMAT
#include "runtime/formats/formats.def"
#undef MESHSEAL_BLOCK_FORMAT
#undef MESHSEAL_ELEMENT_FORMAT

namespace {

template <DType dtype>
void DecodeBlocks(const std::byte* blocks, uint64_t count, float* out) {
  using Elements = FormatElements<dtype>;
  constexpr BlockSize kBlock = Elements::kBlock;
  for (uint64_t i = 0; i < count; ++i) {
    if constexpr (kBlock.elements == 1) {
      out[i] = Elements::One(blocks + i * kBlock.bytes);
    } else {
      for (uint32_t j = 0; j < kBlock.elements; j += 8) {
        Elements::Eight(blocks + i * kBlock.bytes, j, out + i * kBlock.elements + j);
      }
    }
  }
}

constexpr std::array kFormats = {
#define MESHSEAL_ELEMENT_FORMAT(dtype, Name) \
  Format{DType::dtype,                       \
         SizeOfBlock(DType::dtype).elements, \
         SizeOfBlock(DType::dtype).bytes,    \
         &DecodeBlocks<DType::dtype>,        \
         &FaultOf##Name,                     \
         &Tame##Name},
#define MESHSEAL_BLOCK_FORMAT MESHSEAL_ELEMENT_FORMAT
#include "runtime/formats/formats.def"
#undef MESHSEAL_BLOCK_FORMAT
#undef MESHSEAL_ELEMENT_FORMAT
};

}  // namespace

const Format* FindFormat(DType dtype) {
  for (const Format& format : kFormats) {
    if (format.dtype == dtype) return &format;
  }
  return nullptr;
}

}  // namespace meshseal::runtime
