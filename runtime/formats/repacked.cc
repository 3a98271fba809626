#include "runtime/formats/repacked.h"

#include <cstring>
#include <type_traits>

namespace meshseal::runtime {
namespace {

template <DType dtype>
constexpr uint64_t BytesOfBlockInPlanes() {
  uint64_t bytes = 0;
  for (const Plane& plane : RepackedFormat<dtype>::kPlanes) {
    bytes += SizeOfBlock(dtype).elements / plane.columns * plane.bytes;
  }
  return bytes;
}

template <DType dtype, uint32_t kPlane>
void Repack(const StoredBlocks& stored, std::byte* out) {
  using Format = RepackedFormat<dtype>;
  constexpr BlockSize kBlock = SizeOfBlock(dtype);
  constexpr Plane kThis = Format::kPlanes[kPlane];
  const uint32_t strip_rows = StripRowsOf(stored.rows);
  for (uint32_t row = 0; row < stored.rows; ++row) {
    const std::byte* block = stored.data + row * stored.row_bytes;
    for (uint32_t column = 0; column < stored.columns; column += kBlock.elements, block += kBlock.bytes) {
      for (uint32_t first = 0; first < kBlock.elements; first += kThis.columns) {
        std::byte* const to =
            out + NumberOfElement<dtype, kPlane>(strip_rows, stored.columns, row, column + first) * kThis.bytes;
        if constexpr (kThis.of_codes) {
          const uint64_t codes = GatherCodes(kThis.bytes, kThis.from, Format::Codes(block, first));
          std::memcpy(to, &codes, kThis.bytes);
        } else {
          std::memcpy(to, block + kThis.from + first / kThis.columns * kThis.bytes, kThis.bytes);
        }
      }
    }
  }
}

template <DType dtype>
void RepackAny(const StoredBlocks& stored, uint32_t plane, std::byte* out) {
  static_assert(BytesOfBlockInPlanes<dtype>() == SizeOfBlock(dtype).bytes, "every byte of a block is in one plane");
  const auto repack = [&](auto number) {
    if constexpr (number < kPlanesOf<dtype>) {
      if (plane == number) Repack<dtype, number>(stored, out);
    }
  };
  repack(std::integral_constant<uint32_t, 0>());
  repack(std::integral_constant<uint32_t, 1>());
  repack(std::integral_constant<uint32_t, 2>());
  repack(std::integral_constant<uint32_t, 3>());
}

}  // namespace

absl::Span<const Plane> PlanesOf(DType dtype) {
  switch (dtype) {
#define MESHSEAL_ELEMENT_FORMAT(dtype, Name)
#define MESHSEAL_BLOCK_FORMAT(dtype, Name) \
  case DType::dtype:                       \
    return RepackedFormat<DType::dtype>::kPlanes;
#include "runtime/formats/formats.def"
#undef MESHSEAL_BLOCK_FORMAT
#undef MESHSEAL_ELEMENT_FORMAT
    default:
      return {};
  }
}

void RepackPlane(DType dtype, const StoredBlocks& stored, uint32_t plane, std::byte* out) {
  switch (dtype) {
#define MESHSEAL_ELEMENT_FORMAT(dtype, Name)
#define MESHSEAL_BLOCK_FORMAT(dtype, Name) \
  case DType::dtype:                       \
    return RepackAny<DType::dtype>(stored, plane, out);
#include "runtime/formats/formats.def"
#undef MESHSEAL_BLOCK_FORMAT
#undef MESHSEAL_ELEMENT_FORMAT
    default:
      return;
  }
}

}  // namespace meshseal::runtime
