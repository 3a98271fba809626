// A fault in a product is seen under every order of threads and blocks.
#include "tests/cuda/faulty_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "runtime/reference/dot.h"
#include "tests/cuda/faulty_tiles.h"
#include "tests/cuda/stored_layer.h"
#include "tests/simt/direct_launch.h"

namespace meshseal::cuda {
namespace {

class FaultyProductTest : public testing::Test {
 protected:
  static constexpr uint32_t kRows = 70;
  static constexpr uint32_t kColumns = 1100;  // more than a chunk
  static constexpr uint32_t kOperands = 3;

  FaultyProductTest() : weights_(1), matrix_(weights_.Add(StorageNamed("bf16"), kRows, kColumns)) {
    weights_.Upload();
    std::mt19937 random(2);
    x_.resize((kOperands + 1) * kColumns);
    for (float& value : x_) value = std::normal_distribution<float>()(random);
    for (uint32_t operand = 0; operand < kOperands; ++operand) {
      expected_.resize((operand + 1) * kRows);
      runtime::Multiply(matrix_, absl::MakeConstSpan(x_).subspan(operand * kColumns, kColumns),
                        absl::MakeSpan(expected_).subspan(operand * kRows));
    }
  }

  // Whether every element is the product and nothing else was written.
  bool IsRight(ProductKind kind, ProductFault fault, uint64_t seed) {
    simt::SetSeed(seed);
    std::vector<float> out((kOperands + 1) * kRows, NAN);
    const cudaError_t launched =
        LaunchFaultyProduct(kind, fault, weights_.Device(matrix_), x_.data(), kOperands, out.data());
    if (launched != cudaSuccess) return simt::TakeError().empty();
    for (size_t i = 0; i < out.size(); ++i) {
      if (i < expected_.size() ? !(std::fabs(out[i] - expected_[i]) < 1e-4f) : !std::isnan(out[i])) return false;
    }
    return true;
  }

 private:
  StoredWeights weights_;
  runtime::WeightMatrix matrix_;
  std::vector<float> x_;
  std::vector<float> expected_;
};

TEST_F(FaultyProductTest, WithoutAFaultItIsRight) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    EXPECT_TRUE(IsRight(ProductKind::kLanes, ProductFault::kNone, seed)) << seed;
    EXPECT_TRUE(IsRight(ProductKind::kReference, ProductFault::kNone, seed)) << seed;
  }
}

TEST_F(FaultyProductTest, EachFaultIsSeen) {
  for (const ProductFault fault : {ProductFault::kNoBarrier, ProductFault::kNextRow, ProductFault::kNextColumn,
                                   ProductFault::kNextOperand, ProductFault::kOneRowTooMany}) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      EXPECT_FALSE(IsRight(ProductKind::kLanes, fault, seed)) << static_cast<int>(fault) << ", " << seed;
      EXPECT_FALSE(IsRight(ProductKind::kReference, fault, seed)) << static_cast<int>(fault) << ", " << seed;
    }
  }
}

// The same of tiles, with operands that have no more bits than a tensor core takes.
class FaultyTilesTest : public testing::Test {
 protected:
  static constexpr uint32_t kRows = 37;
  static constexpr uint32_t kColumns = 96;
  static constexpr uint32_t kOperands = 29;

  FaultyTilesTest() : weights_(1), matrix_(weights_.Add(StorageNamed("bf16"), kRows, kColumns)) {
    weights_.Upload();
    std::mt19937 random(2);
    x_.resize((kOperands + 1) * kColumns);
    for (float& value : x_) value = static_cast<float>(static_cast<int>(random() % 255) - 127) / 64;
    expected_.resize(kOperands * kRows);
    for (uint32_t operand = 0; operand < kOperands; ++operand) {
      runtime::Multiply(matrix_, absl::MakeConstSpan(x_).subspan(operand * kColumns, kColumns),
                        absl::MakeSpan(expected_).subspan(operand * kRows, kRows));
    }
  }

  bool IsRight(TileFault fault, bool decodes, uint64_t seed) {
    simt::SetSeed(seed);
    std::vector<float> out((kOperands + 1) * kRows, NAN);
    const cudaError_t launched =
        LaunchFaultyTiles(fault, decodes, weights_.Device(matrix_), x_.data(), kOperands, out.data());
    if (launched != cudaSuccess) return simt::TakeError().empty();
    for (size_t i = 0; i < out.size(); ++i) {
      if (i < expected_.size() ? !(std::fabs(out[i] - expected_[i]) < 1e-4f) : !std::isnan(out[i])) return false;
    }
    return true;
  }

 private:
  StoredWeights weights_;
  runtime::WeightMatrix matrix_;
  std::vector<float> x_;
  std::vector<float> expected_;
};

TEST_F(FaultyTilesTest, WithoutAFaultTheyAreRight) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    EXPECT_TRUE(IsRight(TileFault::kNone, false, seed)) << seed;
    EXPECT_TRUE(IsRight(TileFault::kNone, true, seed)) << seed;
  }
}

TEST_F(FaultyTilesTest, EachFaultIsSeen) {
  for (const TileFault fault :
       {TileFault::kNoBarrier, TileFault::kSwappedFragments, TileFault::kNextEight, TileFault::kNextRow,
        TileFault::kNextColumn, TileFault::kNextOperand, TileFault::kOneRowTooMany}) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      EXPECT_FALSE(IsRight(fault, false, seed)) << static_cast<int>(fault) << ", " << seed;
      EXPECT_FALSE(IsRight(fault, true, seed)) << static_cast<int>(fault) << ", " << seed;
    }
  }
}

}  // namespace
}  // namespace meshseal::cuda
