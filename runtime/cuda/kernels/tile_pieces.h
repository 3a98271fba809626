// Which products tensor cores may do, for host and device: those whose every factor they can be given as it is.
//
// A weight is the sum of a few 16-bit pieces, each the nearest to what the ones before it leave. Three of bf16 hold any
// float32, two the 16 significant bits that some formats need at most, one its own numbers. That is exact for what lies
// between 2^-109 and the largest bf16; below, what lies under 2^-133 is lost.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_TILE_PIECES_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_TILE_PIECES_H_

#include <cstdint>

#include "runtime/cuda/kernels/device_matrix.h"
#include "runtime/host_device.h"
#include "schema/dtype.h"

namespace meshseal::cuda {

// What the elements of a tensor core's matrices are.
enum class HalfType : uint8_t { kBf16, kF16 };

inline constexpr uint32_t kMostPieces = 3;

// The most significant bits of a weight.
MESHSEAL_HOST_DEVICE inline uint32_t SignificantBits(const DeviceMatrix& matrix) {
  constexpr uint32_t kOfFloat = 24;
  const auto is_power_of_two = [](DType scale) {
    return scale == DType::kInvalid || scale == DType::kF8E8M0 || scale == DType::kU8;  // u8 stands for f8_e8m0
  };
  if (!is_power_of_two(matrix.scale.dtype) || matrix.scale_2.dtype != DType::kInvalid) return kOfFloat;
  switch (matrix.dtype) {
    case DType::kMxfp4:
      return 2;
    case DType::kF8E4M3:
      return 4;
    case DType::kNvfp4:  // a code of two bits times a scale of four
      return 6;
    case DType::kBf16:
      return 8;
    case DType::kF16:
      return 11;
    case DType::kQ4_0:  // a code of four bits times a half
      return 15;
    default:
      return kOfFloat;
  }
}

// How many pieces of a type are every weight of the matrix; 0: tensor cores cannot do its products.
MESHSEAL_HOST_DEVICE inline uint32_t PiecesOf(HalfType type, const DeviceMatrix& matrix) {
  if (type == HalfType::kBf16) return (SignificantBits(matrix) + 7) / 8;
  if (matrix.is_scaled()) return 0;
  return matrix.dtype == DType::kF16 || matrix.dtype == DType::kF8E4M3 ? 1 : 0;  // others' exponents do not fit
}

// Whether the weights' own bits are their one piece, in eights as aligned as they are loaded.
MESHSEAL_HOST_DEVICE inline bool AreHalves(HalfType type, const DeviceMatrix& matrix) {
  return matrix.dtype == (type == HalfType::kBf16 ? DType::kBf16 : DType::kF16) && !matrix.packed &&
         matrix.element_bytes == 0 && !matrix.is_scaled() && matrix.columns % 8 == 0 &&
         (reinterpret_cast<uintptr_t>(matrix.data) | matrix.row_bytes) % 16 == 0;
}

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_TILE_PIECES_H_
