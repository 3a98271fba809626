// Which way a matrix is read: formats that decode often are read in pieces as wide as their blocks allow, by code of
// their own; every other format, layout and alignment by ReadEight. For .cu files alone.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_WEIGHT_READER_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_WEIGHT_READER_H_

#include <cstdint>

#include "runtime/cuda/kernels/device_code.h"
#include "runtime/cuda/kernels/device_matrix.h"
#include "runtime/cuda/kernels/product_kind.h"

namespace meshseal::cuda {

// A reader's Eight is ReadEight's. kIsSmall: its code is short enough to stand in a loop several times.

// Of any matrix.
struct AnyReader {
  static constexpr bool kIsSmall = false;
  const DeviceMatrix& matrix;
  MESHSEAL_DEVICE void Eight(uint32_t row, uint32_t column, float* out) const { ReadEight(matrix, row, column, out); }
};

// Whole eights one after the other, each row as aligned as the blocks are, without scales of their own.
template <DType dtype>
struct AlignedReader {
  static constexpr bool kIsSmall = true;
  using Elements = runtime::FormatElements<dtype>;
  const std::byte* data;
  uint64_t row_bytes;

  MESHSEAL_DEVICE static bool Reads(const DeviceMatrix& matrix) {
    const uint64_t place = reinterpret_cast<uint64_t>(matrix.data) | matrix.row_bytes;
    return matrix.dtype == dtype && place % Elements::kWidestAlignment == 0;
  }
  MESHSEAL_DEVICE void Eight(uint32_t row, uint32_t column, float* out) const {
    Elements::template Eight<Elements::kWidestAlignment>(data + row * row_bytes, column, out);
  }
};

// f8_e4m3 in eights as above, whose neighbours share the scale that they are multiplied with.
struct ScaledF8Reader {
  static constexpr bool kIsSmall = true;
  AlignedReader<DType::kF8E4M3> codes;
  const DeviceMatrix& matrix;

  MESHSEAL_DEVICE void Eight(uint32_t row, uint32_t column, float* out) const {
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
  const DeviceMatrix& matrix;

  MESHSEAL_DEVICE static bool Reads(const DeviceMatrix& matrix) {
    return matrix.packed && (reinterpret_cast<uint64_t>(matrix.data) | matrix.row_bytes) % 4 == 0 &&
           matrix.scale.is_of_eight() && matrix.scale_2.is_of_eight() &&
           matrix.scale.applies == ScaleApplies::kMultiply &&
           (matrix.scale_2.dtype == DType::kInvalid ? matrix.scale.dtype != DType::kInvalid
                                                    : matrix.scale.dtype == DType::kF8E4M3);
  }
  MESHSEAL_DEVICE void Eight(uint32_t row, uint32_t column, float* out) const {
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
MESHSEAL_DEVICE void WithReader(const DeviceMatrix& matrix, const Use& use) {
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
