#include "runtime/formats/format.h"

#include <array>

namespace meshseal::runtime {

// Three for each row, in the file named after it.
#define MESHSEAL_FORMAT(dtype, Name)                     \
  void Decode##Name(const std::byte* block, float* out); \
  const char* FaultOf##Name(const std::byte* block);     \
  void Tame##Name(std::byte* block);
#include "runtime/formats/formats.def"
#undef MESHSEAL_FORMAT

namespace {

struct BlockSize {
  uint64_t bytes;
  uint64_t elements;
};
constexpr BlockSize SizeOf(DType dtype) {
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

template <DType dtype, void (*Decode)(const std::byte*, float*)>
void DecodeBlocks(const std::byte* blocks, uint64_t count, float* out) {
  for (uint64_t i = 0; i < count; ++i) Decode(blocks + i * SizeOf(dtype).bytes, out + i * SizeOf(dtype).elements);
}

constexpr std::array kFormats = {
#define MESHSEAL_FORMAT(dtype, Name)                 \
  Format{DType::dtype,                               \
         SizeOf(DType::dtype).elements,              \
         SizeOf(DType::dtype).bytes,                 \
         &DecodeBlocks<DType::dtype, &Decode##Name>, \
         &FaultOf##Name,                             \
         &Tame##Name},
#include "runtime/formats/formats.def"
#undef MESHSEAL_FORMAT
};

}  // namespace

const Format* FindFormat(DType dtype) {
  for (const Format& format : kFormats) {
    if (format.dtype == dtype) return &format;
  }
  return nullptr;
}

}  // namespace meshseal::runtime
