// Which way a matrix is read: formats that decode often are read in pieces as wide as their blocks allow, or repacked
// in pieces for several rows, by code of their own; every other format, layout and alignment by ReadEight. For .cu
// files alone.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_WEIGHT_READER_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_WEIGHT_READER_H_

#include <cstdint>

#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/device_matrix.h"
#include "runtime/cuda/kernels/product_kind.h"

namespace meshseal::cuda {

// A reader's Eight is ReadEight's. kIsSmall: its code is short enough to stand in a loop several times. kReadsRows: it
// has Rows, which is Eight of `kRows` rows from `row` on, all of which there are.

// Of any matrix.
struct AnyReader {
  static constexpr bool kIsSmall = false;
  static constexpr bool kReadsRows = false;
  const DeviceMatrix& matrix;
  MESHSEAL_DEVICE_INTO_CALLER void Eight(uint32_t row, uint32_t column, float* out) const {
    ReadEight(matrix, row, column, out);
  }
};

// Whole eights one after the other, each row as aligned as the blocks are, without scales of their own.
template <DType dtype>
struct AlignedReader {
  static constexpr bool kIsSmall = true;
  static constexpr bool kReadsRows = false;
  using Elements = runtime::FormatElements<dtype>;
  const std::byte* data;
  uint64_t row_bytes;

  MESHSEAL_DEVICE static bool Reads(const DeviceMatrix& matrix) {
    const uint64_t place = reinterpret_cast<uint64_t>(matrix.data) | matrix.row_bytes;
    return matrix.dtype == dtype && place % Elements::kWidestAlignment == 0;
  }
  MESHSEAL_DEVICE_INTO_CALLER void Eight(uint32_t row, uint32_t column, float* out) const {
    Elements::template Eight<Elements::kWidestAlignment>(data + row * row_bytes, column, out);
  }
};

// f8_e4m3 in eights as above, whose neighbours share the scale that they are multiplied with.
struct ScaledF8Reader {
  static constexpr bool kIsSmall = true;
  static constexpr bool kReadsRows = false;
  AlignedReader<DType::kF8E4M3> codes;
  const DeviceMatrix& matrix;

  MESHSEAL_DEVICE_INTO_CALLER void Eight(uint32_t row, uint32_t column, float* out) const {
    codes.Eight(row, column, out);
    const float scale = runtime::ScaleOf(matrix.scale, row, column);
    MESHSEAL_UNROLL
    for (uint32_t i = 0; i < 8; ++i) out[i] *= scale;
  }
};

// Codes of E2M1 in eights, four bytes, whose neighbours share their scales: one, or two of which the first gives a
// product that float32 holds.
struct PackedReader {
  static constexpr bool kIsSmall = true;
  static constexpr bool kReadsRows = false;
  const DeviceMatrix& matrix;

  MESHSEAL_DEVICE static bool Reads(const DeviceMatrix& matrix) {
    return matrix.packed && (reinterpret_cast<uint64_t>(matrix.data) | matrix.row_bytes) % 4 == 0 &&
           matrix.scale.is_of_eight() && matrix.scale_2.is_of_eight() &&
           matrix.scale.applies == ScaleApplies::kMultiply &&
           (matrix.scale_2.dtype == DType::kInvalid ? matrix.scale.dtype != DType::kInvalid
                                                    : matrix.scale.dtype == DType::kF8E4M3);
  }
  MESHSEAL_DEVICE_INTO_CALLER void Eight(uint32_t row, uint32_t column, float* out) const {
    const auto codes = runtime::LoadAs<uint32_t, 4>(matrix.data + row * matrix.row_bytes + column / 2);
    const float scale = runtime::ScaleOf(matrix.scale, row, column);
    MESHSEAL_UNROLL
    for (uint32_t i = 0; i < 8; ++i) out[i] = runtime::E2M1((codes >> (4 * i)) & 15u) * scale;
    if (matrix.scale_2.dtype == DType::kInvalid) return;
    const float scale_2 = runtime::ScaleOf(matrix.scale_2, row, column);
    MESHSEAL_UNROLL
    for (uint32_t i = 0; i < 8; ++i) out[i] = runtime::Scaled(out[i], matrix.scale_2.applies, scale_2);
  }
};

// A repacked matrix without scales of its own, in strips of several rows.
template <DType dtype>
struct RepackedReader {
  static constexpr bool kIsSmall = true;
  static constexpr bool kReadsRows = true;
  const DeviceMatrix& matrix;

  MESHSEAL_DEVICE_INTO_CALLER void Eight(uint32_t row, uint32_t column, float* out) const {
    runtime::EightRepacked<dtype>(matrix.planes, matrix.columns, row, column, out);
  }
  // `row` is a multiple of kRows, which divides kStripRows.
  template <uint32_t kRows>
  MESHSEAL_DEVICE_INTO_CALLER void Rows(uint32_t row, uint32_t column, float (&out)[kRows][8]) const {
    static_assert(runtime::kStripRows % kRows == 0);
    runtime::PlaneElements elements[kRows] = {};
    runtime::LoadPlanes<dtype>(matrix.planes, matrix.columns, row, column, elements);
    MESHSEAL_UNROLL
    for (uint32_t r = 0; r < kRows; ++r) {
      runtime::RepackedFormat<dtype>::Values(elements[r], column % runtime::SizeOfBlock(dtype).elements, out[r]);
    }
  }
};

// The formats with a RepackedReader of their own: MESHSEAL_REPACKED(dtype, whether kernels of kind reference have it
// too).
#define MESHSEAL_REPACKED_FORMATS(MESHSEAL_REPACKED) \
  MESHSEAL_REPACKED(kMxfp4, false)                   \
  MESHSEAL_REPACKED(kQ8_0, true)                     \
  MESHSEAL_REPACKED(kQ4_0, false)                    \
  MESHSEAL_REPACKED(kQ4K, true)                      \
  MESHSEAL_REPACKED(kQ6K, false)                     \
  MESHSEAL_REPACKED(kQ2K, false)                     \
  MESHSEAL_REPACKED(kIq2Xxs, false)

// The formats with an AlignedReader of their own: MESHSEAL_ALIGNED(dtype, whether kernels of kind reference have it
// too).
#define MESHSEAL_ALIGNED_FORMATS(MESHSEAL_ALIGNED) \
  MESHSEAL_ALIGNED(kF32, false)                    \
  MESHSEAL_ALIGNED(kF16, false)                    \
  MESHSEAL_ALIGNED(kBf16, true)                    \
  MESHSEAL_ALIGNED(kQ8_0, true)                    \
  MESHSEAL_ALIGNED(kQ4_0, false)                   \
  MESHSEAL_ALIGNED(kQ4K, true)                     \
  MESHSEAL_ALIGNED(kQ6K, false)

// Calls `use` with the matrix's reader. The choice is the same for all threads that have the matrix.
template <ProductKind kind, class Use>
MESHSEAL_DEVICE_INTO_CALLER void WithReader(const DeviceMatrix& matrix, const Use& use) {
  if (matrix.planes.are_there()) {
    if (!matrix.is_scaled() && matrix.planes.strip_rows == runtime::kStripRows) {
#define MESHSEAL_REPACKED(dtype_of, of_reference)                    \
  if constexpr (kind != ProductKind::kReference || (of_reference)) { \
    if (matrix.dtype == DType::dtype_of) {                           \
      use(RepackedReader<DType::dtype_of>{matrix});                  \
      return;                                                        \
    }                                                                \
  }
      MESHSEAL_REPACKED_FORMATS(MESHSEAL_REPACKED)
#undef MESHSEAL_REPACKED
    }
    use(AnyReader{matrix});
    return;
  }
  const bool in_eights = !matrix.packed && matrix.element_bytes == 0 && matrix.columns % 8 == 0;
  if (in_eights && !matrix.is_scaled()) {
#define MESHSEAL_ALIGNED(dtype, of_reference)                          \
  if constexpr (kind != ProductKind::kReference || (of_reference)) {   \
    if (AlignedReader<DType::dtype>::Reads(matrix)) {                  \
      use(AlignedReader<DType::dtype>{matrix.data, matrix.row_bytes}); \
      return;                                                          \
    }                                                                  \
  }
    MESHSEAL_ALIGNED_FORMATS(MESHSEAL_ALIGNED)
#undef MESHSEAL_ALIGNED
  }
  if (in_eights && AlignedReader<DType::kF8E4M3>::Reads(matrix) && matrix.scale.dtype != DType::kInvalid &&
      matrix.scale.applies == ScaleApplies::kMultiply && matrix.scale.is_of_eight() &&
      matrix.scale_2.dtype == DType::kInvalid) {
    use(ScaledF8Reader{{matrix.data, matrix.row_bytes}, matrix});
    return;
  }
  if (matrix.columns % 8 == 0 && PackedReader::Reads(matrix)) {
    use(PackedReader{matrix});
    return;
  }
  use(AnyReader{matrix});
}

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_WEIGHT_READER_H_
