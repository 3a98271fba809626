// What device code reads of a matrix are the bits of WeightMatrix::Row.
#include "runtime/cuda/kernels/device_matrix.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/cuda/stored_layer.h"

namespace meshseal::cuda {
namespace {

std::vector<float> RowOnDevice(const DeviceMatrix& matrix, uint32_t row) {
  std::vector<float> values(matrix.columns);
  for (uint32_t column = 0; column < matrix.columns; column += 8) {
    float eight[8];
    ReadEight(matrix, row, column, eight);
    for (uint32_t i = 0; i < 8; ++i) {
      if (column + i < matrix.columns) {
        values[column + i] = eight[i];
      } else {
        EXPECT_EQ(eight[i], 0.0f);
      }
    }
  }
  return values;
}

void ExpectTheSame(const Storage& storage, uint32_t rows, uint32_t columns) {
  StoredWeights weights(7);
  weights.Add(StorageNamed("bf16"), 3, 5);  // so that it does not lie at the front
  const runtime::WeightMatrix matrix = weights.Add(storage, rows, columns);
  weights.Upload();
  const DeviceMatrix device = weights.Device(matrix);
  for (uint32_t row = 0; row < rows; ++row) {
    std::vector<float> expected(columns);
    matrix.Row(row, absl::MakeSpan(expected));
    const std::vector<float> read = RowOnDevice(device, row);
    EXPECT_EQ(std::memcmp(read.data(), expected.data(), columns * sizeof(float)), 0) << storage.name << ", row " << row;
  }
}

TEST(DeviceMatrixTest, ReadsTheBitsOfEveryStorage) {
  for (const Storage& storage : AllStorages()) {
    ExpectTheSame(storage, 7, 512);
    if (!storage.repacked) continue;
    ExpectTheSame(storage, 8, 512);  // in strips of several rows
    ExpectTheSame(storage, 1, 256);
  }
}

TEST(DeviceMatrixTest, ARowMayEndInsideEight) {
  for (const char* name : {"f32", "f16 at odd places", "bf16", "bf16 transposed", "f8_e4m3 interleaved",
                           "f8_e4m3 with bf16 scales of 1x12", "f8_e4m3 with f32 scales of 3x128 transposed"}) {
    for (const uint32_t columns : {1u, 7u, 13u, 20u}) ExpectTheSame(StorageNamed(name), 3, columns);
  }
}

TEST(DeviceMatrixTest, VectorsMayAlternate) {
  for (const Lies lies : {Lies::kInRows, Lies::kInterleaved}) {
    StoredWeights weights(3);
    weights.AddVector(3);
    const runtime::WeightMatrix vector = weights.AddVector(19, lies);
    weights.Upload();
    const DeviceMatrix device = weights.Device(vector);
    std::vector<float> expected(19);
    vector.Row(0, absl::MakeSpan(expected));
    for (uint32_t i = 0; i < 19; ++i) EXPECT_EQ(ReadVector(device, i), expected[i]) << i;
  }
}

TEST(DeviceMatrixTest, NothingIsReadWithoutAFormat) {
  DeviceMatrix matrix;
  matrix.dtype = DType::kI32;
  matrix.rows = 1;
  matrix.columns = 8;
  float eight[8];
  ReadEight(matrix, 0, 0, eight);
  for (const float value : eight) EXPECT_NE(value, value);
}

TEST(DeviceMatrixTest, WhatIsNotThereIsEmptyOnTheDevice) {
  const std::byte somewhere{};
  EXPECT_TRUE(OnDevice(runtime::WeightMatrix{}, &somewhere, &somewhere).empty());
  EXPECT_TRUE(OnDevice(runtime::SharedWeights{}, &somewhere, &somewhere).down.empty());
}

}  // namespace
}  // namespace meshseal::cuda
