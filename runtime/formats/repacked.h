// Matrices of blocks in another order of bytes, which a device reads in aligned pieces of up to 16 bytes: the same
// number of bytes, the same bits of every element. Every block format has such a form; one whose elements are blocks of
// their own is as good as stored.
//
// A matrix becomes planes (planes.h; PlanesOf##Name in the format's header): codes of eight neighbours each, scales of
// a block, and so on. A plane's elements lie by strips of rows, in a strip by columns, and at each place the strip's
// rows one after the other, so that what a few rows need of a place is read at once. Strips are of kStripRows rows
// where that divides the rows, else of one.
#ifndef MESHSEAL_RUNTIME_FORMATS_REPACKED_H_
#define MESHSEAL_RUNTIME_FORMATS_REPACKED_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "runtime/formats/format_elements.h"
#include "runtime/formats/planes.h"
#include "runtime/host_device.h"
#include "schema/dtype.h"

namespace meshseal::runtime {

inline constexpr uint32_t kStripRows = 4;

// A view of a matrix's planes. Plain data.
struct RepackedPlanes {
  uint32_t strip_rows = 0;  // 0: the matrix is as stored, and has none
  const std::byte* data[kMostPlanes] = {};

  MESHSEAL_HOST_DEVICE bool are_there() const { return strip_rows > 0; }
};

// DType -> kPlanes and Values; of block formats alone.
template <DType dtype>
struct RepackedFormat;

#define MESHSEAL_ELEMENT_FORMAT(dtype, Name)
#define MESHSEAL_BLOCK_FORMAT(dtype, Name) \
  template <>                              \
  struct RepackedFormat<DType::dtype> : PlanesOf##Name {};
#include "runtime/formats/formats.def"
#undef MESHSEAL_BLOCK_FORMAT
#undef MESHSEAL_ELEMENT_FORMAT

template <DType dtype>
inline constexpr uint32_t kPlanesOf = sizeof(RepackedFormat<dtype>::kPlanes) / sizeof(Plane);

// The largest power of two, up to 16, that divides `bytes`: how a plane with so many bytes at each place of a strip
// lies, and its size is a multiple of.
constexpr uint32_t AlignmentOfPlaces(uint32_t bytes) {
  uint32_t alignment = 16;
  while (bytes % alignment != 0) alignment /= 2;
  return alignment;
}

// `kCount` elements of `kBytes` bytes each that lie one after the other, as aligned as their sum's size, to
// elements[i].words[plane].
template <uint32_t kBytes, uint32_t kCount>
MESHSEAL_INTO_CALLER void LoadElements(const std::byte* at, uint32_t plane, PlaneElements (&elements)[kCount]) {
  constexpr uint32_t kTotal = kBytes * kCount;
  constexpr uint32_t kAlignment = AlignmentOfPlaces(kTotal);
  uint32_t words[(kTotal + 3) / 4] = {};
  if constexpr (kAlignment == 16) {
    struct alignas(16) Four {
      uint32_t words[4];
    };
    MESHSEAL_UNROLL
    for (uint32_t i = 0; i < kTotal / 16; ++i) {
      const auto four = LoadAs<Four, 16>(at + i * 16);
      MESHSEAL_UNROLL
      for (uint32_t j = 0; j < 4; ++j) words[4 * i + j] = four.words[j];
    }
  } else if constexpr (kAlignment == 8) {
    MESHSEAL_UNROLL
    for (uint32_t i = 0; i < kTotal / 8; ++i) {
      const auto two = LoadAs<uint64_t, 8>(at + i * 8);
      words[2 * i] = static_cast<uint32_t>(two);
      words[2 * i + 1] = static_cast<uint32_t>(two >> 32);
    }
  } else if constexpr (kAlignment == 4) {
    MESHSEAL_UNROLL
    for (uint32_t i = 0; i < kTotal / 4; ++i) words[i] = LoadAs<uint32_t, 4>(at + i * 4);
  } else if constexpr (kAlignment == 2) {
    static_assert(kTotal == 2);
    words[0] = LoadAs<uint16_t, 2>(at);
  } else {
    static_assert(kTotal == 1);
    words[0] = ByteAt(at, 0);
  }
  MESHSEAL_UNROLL
  for (uint32_t i = 0; i < kCount; ++i) {
    if constexpr (kBytes < 4) {
      elements[i].words[plane][0] = words[i * kBytes / 4] >> (8 * (i * kBytes % 4)) & ((1u << (8 * kBytes)) - 1);
    } else {
      MESHSEAL_UNROLL
      for (uint32_t j = 0; j < kBytes / 4; ++j) elements[i].words[plane][j] = words[i * kBytes / 4 + j];
    }
  }
}

// The element of a plane for a row's column is number NumberOfElement.
template <DType dtype, uint32_t kPlane>
MESHSEAL_INTO_CALLER uint64_t NumberOfElement(uint32_t strip_rows, uint32_t columns, uint32_t row, uint32_t column) {
  constexpr uint32_t kColumns = RepackedFormat<dtype>::kPlanes[kPlane].columns;
  const uint32_t in_strip = row & (strip_rows - 1);  // rows of a strip are a power of two
  return uint64_t{row - in_strip} * (columns / kColumns) + (column / kColumns) * strip_rows + in_strip;
}

template <DType dtype, uint32_t kPlane, uint32_t kRows>
MESHSEAL_INTO_CALLER void LoadPlane(const RepackedPlanes& planes, uint32_t columns, uint32_t row, uint32_t column,
                                    PlaneElements (&elements)[kRows]) {
  if constexpr (kPlane < kPlanesOf<dtype>) {
    constexpr uint32_t kBytes = RepackedFormat<dtype>::kPlanes[kPlane].bytes;
    const uint64_t number = NumberOfElement<dtype, kPlane>(planes.strip_rows, columns, row, column);
    LoadElements<kBytes>(planes.data[kPlane] + number * kBytes, kPlane, elements);
  }
}

// What `kRows` rows from `row` on need for columns [column, column + 8): one row, or some that divide kStripRows, from
// a multiple of them on, of a matrix with such strips.
template <DType dtype, uint32_t kRows>
MESHSEAL_INTO_CALLER void LoadPlanes(const RepackedPlanes& planes, uint32_t columns, uint32_t row, uint32_t column,
                                     PlaneElements (&elements)[kRows]) {
  LoadPlane<dtype, 0>(planes, columns, row, column, elements);
  LoadPlane<dtype, 1>(planes, columns, row, column, elements);
  LoadPlane<dtype, 2>(planes, columns, row, column, elements);
  LoadPlane<dtype, 3>(planes, columns, row, column, elements);
}

// Elements [column, column + 8) of a row, `column` a multiple of 8.
template <DType dtype>
MESHSEAL_INTO_CALLER void EightRepacked(const RepackedPlanes& planes, uint32_t columns, uint32_t row, uint32_t column,
                                        float* out) {
  PlaneElements elements[1] = {};
  LoadPlanes<dtype>(planes, columns, row, column, elements);
  RepackedFormat<dtype>::Values(elements[0], column % FormatElements<dtype>::kBlock.elements, out);
}

// The same of any format; NaN for one without such a form.
MESHSEAL_INTO_CALLER void ReadEightRepacked(DType dtype, const RepackedPlanes& planes, uint32_t columns, uint32_t row,
                                            uint32_t column, float* out) {
  switch (dtype) {
#define MESHSEAL_ELEMENT_FORMAT(dtype, Name)
#define MESHSEAL_BLOCK_FORMAT(dtype, Name)                          \
  case DType::dtype:                                                \
    EightRepacked<DType::dtype>(planes, columns, row, column, out); \
    return;
#include "runtime/formats/formats.def"
#undef MESHSEAL_BLOCK_FORMAT
#undef MESHSEAL_ELEMENT_FORMAT
    default:
      for (uint32_t i = 0; i < 8; ++i) out[i] = std::bit_cast<float>(0x7FC00000u);
  }
}

// A matrix of blocks as stored: whole blocks, rows `row_bytes` apart.
struct StoredBlocks {
  const std::byte* data = nullptr;
  uint64_t row_bytes = 0;
  uint32_t rows = 0;
  uint32_t columns = 0;
};

// The planes of a format; empty for one without a repacked form.
absl::Span<const Plane> PlanesOf(DType dtype);

inline uint32_t StripRowsOf(uint32_t rows) { return rows % kStripRows == 0 ? kStripRows : 1; }

inline uint64_t BytesOfPlane(const Plane& plane, uint32_t rows, uint32_t columns) {
  return uint64_t{rows} * (columns / plane.columns) * plane.bytes;
}

// Writes plane number `plane` of the format's to `out`, all of its bytes, with strips of StripRowsOf rows.
void RepackPlane(DType dtype, const StoredBlocks& stored, uint32_t plane, std::byte* out);

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_FORMATS_REPACKED_H_
