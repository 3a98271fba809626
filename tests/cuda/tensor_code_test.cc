// The host's bodies of tensor instructions against what the PTX ISA says of fragments, element by element.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "runtime/cuda/kernels/tile_pieces.h"
#include "schema/float_bits.h"
#include "tests/cuda/kernel_buffers.h"
#include "tests/cuda/tensor_samples.h"

namespace meshseal::cuda {
namespace {

constexpr uint32_t kLanes = 32;

uint16_t Bits(HalfType type, float number) {
  return type == HalfType::kBf16 ? FloatToBf16(number) : FloatToF16(number);
}

// The ISA's "Matrix Fragments for mma.m16n8k16 with floating point type": element i of a lane's fragment.
struct Place {
  uint32_t row;
  uint32_t column;
};
Place OfA(uint32_t lane, uint32_t i) {
  const uint32_t group = lane >> 2;
  return {(i < 2 || (i >= 4 && i < 6)) ? group : group + 8, (lane & 3) * 2 + (i & 1) + (i >= 4 ? 8 : 0)};
}
Place OfB(uint32_t lane, uint32_t i) { return {(lane & 3) * 2 + (i & 1) + (i >= 2 ? 8 : 0), lane >> 2}; }
Place OfSums(uint32_t lane, uint32_t i) { return {(lane >> 2) + (i >= 2 ? 8 : 0), (lane & 3) * 2 + (i & 1)}; }

TEST(TensorCodeTest, MultiplyAddIsAMatrixProduct) {
  for (const HalfType type : {HalfType::kBf16, HalfType::kF16}) {
    std::mt19937 random(7);
    const auto number = [&random] { return static_cast<float>(static_cast<int>(random() % 31) - 15) / 4; };
    float a[16][16];
    float b[16][8];
    float sums[16][8];
    for (auto& row : a) {
      for (float& value : row) value = number();
    }
    for (auto& row : b) {
      for (float& value : row) value = number();
    }
    for (auto& row : sums) {
      for (float& value : row) value = number();
    }
    std::vector<uint32_t> of_a(kLanes * 4, 0);
    std::vector<uint32_t> of_b(kLanes * 2, 0);
    std::vector<float> of_sums(kLanes * 4);
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      for (uint32_t i = 0; i < 8; ++i) {
        const Place at = OfA(lane, i);
        of_a[lane * 4 + i / 2] |= uint32_t{Bits(type, a[at.row][at.column])} << (16 * (i % 2));
      }
      for (uint32_t i = 0; i < 4; ++i) {
        const Place at = OfB(lane, i);
        of_b[lane * 2 + i / 2] |= uint32_t{Bits(type, b[at.row][at.column])} << (16 * (i % 2));
        const Place sum = OfSums(lane, i);
        of_sums[lane * 4 + i] = sums[sum.row][sum.column];
      }
    }
    const std::vector<float> before = of_sums;
    UnderEverySchedule([&] {
      of_sums = before;
      return LaunchMultiplyAdd(type, of_a.data(), of_b.data(), of_sums.data());
    });
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      for (uint32_t i = 0; i < 4; ++i) {
        const Place at = OfSums(lane, i);
        float expected = sums[at.row][at.column];  // exact: multiples of 1/16 far below 2^20
        for (uint32_t k = 0; k < 16; ++k) expected += a[at.row][k] * b[k][at.column];
        EXPECT_EQ(of_sums[lane * 4 + i], expected) << "lane " << lane << ", element " << i;
      }
    }
  }
}

TEST(TensorCodeTest, LanesOfALoadSayRowsAndGetPairs) {
  std::vector<uint16_t> rows(kLanes * 8);
  for (uint32_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<uint16_t>(i);
  std::vector<uint32_t> of_lane(kLanes);
  for (uint32_t lane = 0; lane < kLanes; ++lane) of_lane[lane] = lane * 5 % kLanes;
  std::vector<uint32_t> registers(kLanes * 4);
  UnderEverySchedule([&] { return LaunchLoadMatrices(rows.data(), of_lane.data(), registers.data()); });
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    for (uint32_t matrix = 0; matrix < 4; ++matrix) {
      const uint32_t first = of_lane[matrix * 8 + lane / 4] * 8 + lane % 4 * 2;
      EXPECT_EQ(registers[lane * 4 + matrix], (first + 1) << 16 | first) << lane << ", " << matrix;
    }
  }
}

TEST(TensorCodeTest, TwoNumbersAreRoundedToTheNearest) {
  const float numbers[] = {0.0f,     -0.0f,        1.0f,    1.00390625f, 1.01171875f, -65519.0f, 65520.0f, 3.4e38f,
                           INFINITY, -INFINITY,    1e-8f,   6e-8f,       -1e-40f,     2.5f,      1e30f,    -7.0f,
                           0.1f,     -0.33333334f, 1024.5f, 2049.0f,     2051.0f,     5.96e-8f,  3e-8f,    123456.0f};
  std::vector<float> pairs;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    pairs.push_back(numbers[lane % std::size(numbers)]);
    pairs.push_back(numbers[(lane + 7) % std::size(numbers)]);
  }
  pairs[4] = NAN;
  pairs[7] = std::bit_cast<float>(0xFF800001u);  // a NaN with a sign and a payload
  for (const HalfType type : {HalfType::kBf16, HalfType::kF16}) {
    std::vector<uint32_t> packed(kLanes);
    UnderEverySchedule([&] { return LaunchPackTwo(type, pairs.data(), packed.data()); });
    for (uint32_t i = 0; i < pairs.size(); ++i) {
      const uint32_t bits = packed[i / 2] >> (16 * (i % 2)) & 0xFFFFu;
      EXPECT_EQ(bits, std::isnan(pairs[i]) ? 0x7FFFu : Bits(type, pairs[i])) << pairs[i];
    }
  }
}

}  // namespace
}  // namespace meshseal::cuda
