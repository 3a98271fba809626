// Weights in device memory, as stored or repacked: the device's twin of runtime/weights/weight_matrix.h, with the same
// fields, and what reads it. Every element has the bits that WeightMatrix::Row gives it.
//
// Plain data; pointers are into device memory. The host makes them of a rank's weights and of where their bytes were
// copied to.
#ifndef MESHSEAL_RUNTIME_CUDA_KERNELS_DEVICE_MATRIX_H_
#define MESHSEAL_RUNTIME_CUDA_KERNELS_DEVICE_MATRIX_H_

#include <cstddef>
#include <cstdint>

#include "runtime/formats/format_elements.h"
#include "runtime/formats/repacked.h"
#include "runtime/host_device.h"
#include "runtime/weights/scaled_element.h"
#include "schema/dtype.h"
#include "schema/vocabularies.h"

namespace meshseal::runtime {
struct ExpertWeights;
struct SharedWeights;
struct WeightMatrix;
}  // namespace meshseal::runtime

namespace meshseal::cuda {

struct DeviceScales {
  DType dtype = DType::kInvalid;
  ScaleApplies applies = ScaleApplies::kInvalid;
  uint32_t block_rows = 0;
  uint32_t block_columns = 0;
  uint32_t first_row = 0;
  uint32_t row_step = 1;
  uint64_t row_bytes = 0;
  uint64_t column_bytes = 0;
  const std::byte* data = nullptr;

  // Whether eight neighbours from a multiple of 8 on have one scale, or none.
  MESHSEAL_HOST_DEVICE bool is_of_eight() const { return block_columns % 8 == 0; }
};

struct DeviceMatrix {
  DType dtype = DType::kInvalid;
  bool packed = false;
  uint32_t rows = 0;
  uint32_t columns = 0;
  uint64_t row_bytes = 0;
  uint64_t element_bytes = 0;
  const std::byte* data = nullptr;
  DeviceScales scale;
  DeviceScales scale_2;
  runtime::RepackedPlanes planes;  // where they are there, the elements lie in them

  MESHSEAL_HOST_DEVICE bool empty() const { return rows == 0 || columns == 0; }
  MESHSEAL_HOST_DEVICE bool is_scaled() const {
    return scale.dtype != DType::kInvalid || scale_2.dtype != DType::kInvalid;
  }
};

struct DeviceExpert {
  DeviceMatrix gate;       // [C, H]
  DeviceMatrix up;         // [C, H]
  DeviceMatrix down;       // [H, C]
  DeviceMatrix gate_bias;  // [1, C]
  DeviceMatrix up_bias;    // [1, C]
  DeviceMatrix down_bias;  // [1, H]
};

struct DeviceShared {
  DeviceMatrix gate;         // [S, H]
  DeviceMatrix up;           // [S, H]
  DeviceMatrix down;         // [H, S]
  DeviceMatrix expert_gate;  // [1, H]
};

// The matrices whose bytes, a part of the block at `host`, lie at the same places of the block at `device`.
DeviceMatrix OnDevice(const runtime::WeightMatrix& matrix, const std::byte* host, const std::byte* device);
DeviceExpert OnDevice(const runtime::ExpertWeights& expert, const std::byte* host, const std::byte* device);
DeviceShared OnDevice(const runtime::SharedWeights& shared, const std::byte* host, const std::byte* device);

// One element of a format whose elements are blocks of their own; NaN for any other format.
MESHSEAL_HOST_DEVICE inline float ReadStored(DType dtype, const std::byte* element) {
  switch (dtype) {
#define MESHSEAL_ELEMENT_FORMAT(dtype, Name) \
  case DType::dtype:                         \
    return runtime::FormatElements<DType::dtype>::One(element);
#define MESHSEAL_BLOCK_FORMAT(dtype, Name)
#include "runtime/formats/formats.def"
#undef MESHSEAL_BLOCK_FORMAT
#undef MESHSEAL_ELEMENT_FORMAT
    default:
      return std::bit_cast<float>(0x7FC00000u);
  }
}

// Eight elements of a run, from `first`, a multiple of 8; NaN for what has no format.
MESHSEAL_INTO_CALLER void ReadEightStored(DType dtype, const std::byte* run, uint32_t first, float* out) {
  switch (dtype) {
#define MESHSEAL_ELEMENT_FORMAT(dtype, Name)                                  \
  case DType::dtype:                                                          \
    runtime::FormatElements<DType::dtype>::template Eight<>(run, first, out); \
    return;
#define MESHSEAL_BLOCK_FORMAT MESHSEAL_ELEMENT_FORMAT
#include "runtime/formats/formats.def"
#undef MESHSEAL_BLOCK_FORMAT
#undef MESHSEAL_ELEMENT_FORMAT
    default:
      for (uint32_t i = 0; i < 8; ++i) out[i] = std::bit_cast<float>(0x7FC00000u);
  }
}

// Replaces each of the first `there` of eight elements: out[i] = make(i, out[i]). One body for all, and constant
// indices.
template <class Make>
MESHSEAL_HOST_DEVICE void ForEachOfEight(uint32_t there, float* out, const Make& make) {
  MESHSEAL_NO_UNROLL
  for (uint32_t i = 0; i < there; ++i) {
    float value = 0;
    MESHSEAL_UNROLL
    for (uint32_t j = 0; j < 8; ++j) value = i == j ? out[j] : value;
    value = make(i, value);
    MESHSEAL_UNROLL
    for (uint32_t j = 0; j < 8; ++j) out[j] = i == j ? value : out[j];
  }
}

// Elements [column, column + 8) of a row, `column` a multiple of 8; zeros where the row has ended.
MESHSEAL_INTO_CALLER void ReadEight(const DeviceMatrix& matrix, uint32_t row, uint32_t column, float* out) {
  const std::byte* const at = matrix.data + row * matrix.row_bytes;
  const uint32_t there = matrix.columns - column < 8 ? matrix.columns - column : 8;
  if (matrix.planes.are_there()) {
    runtime::ReadEightRepacked(matrix.dtype, matrix.planes, matrix.columns, row, column, out);
  } else if (!matrix.packed && matrix.element_bytes == 0 && there == 8) {
    ReadEightStored(matrix.dtype, at, column, out);
  } else {
    const uint64_t stride = matrix.element_bytes > 0 ? matrix.element_bytes : runtime::SizeOfBlock(matrix.dtype).bytes;
    MESHSEAL_UNROLL
    for (uint32_t i = 0; i < 8; ++i) out[i] = 0;
    ForEachOfEight(there, out, [&](uint32_t i, float) {
      if (!matrix.packed) return ReadStored(matrix.dtype, at + (column + i) * stride);
      return runtime::E2M1(runtime::Nibble(runtime::ByteAt(at, (column + i) / 2), i % 2 == 1));
    });
  }
  if (!matrix.is_scaled()) return;
  ForEachOfEight(there, out, [&](uint32_t i, float value) {
    return runtime::ScaledElement(value, matrix.scale, matrix.scale_2, row, column + i);
  });
}

// Element `column` of a vector: a matrix of one row whose elements are blocks of their own.
MESHSEAL_HOST_DEVICE inline float ReadVector(const DeviceMatrix& vector, uint32_t column) {
  const uint64_t stride = vector.element_bytes > 0 ? vector.element_bytes : runtime::SizeOfBlock(vector.dtype).bytes;
  return ReadStored(vector.dtype, vector.data + column * stride);
}

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_KERNELS_DEVICE_MATRIX_H_
