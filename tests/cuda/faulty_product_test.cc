// A fault in a product is seen under every order of threads and blocks.
#include "tests/cuda/faulty_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "runtime/reference/dot.h"
#include "tests/cuda/stored_layer.h"
#include "tests/simt/direct_launch.h"

namespace meshseal::cuda {
namespace {

// A matrix, operands, and what their products are.
class FaultTest : public testing::Test {
 protected:
  // `element` makes each element of the operands.
  template <class Element>
  FaultTest(uint32_t rows, uint32_t columns, uint32_t operands, const Element& element)
      : weights_(1), matrix_(weights_.Add(StorageNamed("bf16"), rows, columns)), operands_(operands) {
    weights_.Upload();
    std::mt19937 random(2);
    x_.resize((operands + 1) * columns);
    for (float& value : x_) value = element(random);
    expected_.resize(operands * rows);
    for (uint32_t operand = 0; operand < operands; ++operand) {
      runtime::Multiply(matrix_, absl::MakeConstSpan(x_).subspan(operand * columns, columns),
                        absl::MakeSpan(expected_).subspan(operand * rows, rows));
    }
  }

  // Whether launch(matrix, x, operands, out) makes every element the product and writes nothing else.
  template <class Launch>
  bool IsRight(uint64_t seed, const Launch& launch) {
    simt::SetSeed(seed);
    std::vector<float> out(expected_.size() + expected_.size() / operands_, NAN);
    if (launch(weights_.Device(matrix_), x_.data(), operands_, out.data()) != cudaSuccess) {
      return simt::TakeError().empty();
    }
    for (size_t i = 0; i < out.size(); ++i) {
      if (i < expected_.size() ? !(std::fabs(out[i] - expected_[i]) < 1e-4f) : !std::isnan(out[i])) return false;
    }
    return true;
  }

 private:
  StoredWeights weights_;
  runtime::WeightMatrix matrix_;
  uint32_t operands_;
  std::vector<float> x_;
  std::vector<float> expected_;
};

class FaultyProductTest : public FaultTest {
 protected:
  FaultyProductTest()
      // More columns than a chunk has.
      : FaultTest(70, 1100, 3, [](std::mt19937& random) { return std::normal_distribution<float>()(random); }) {}

  bool IsRight(ProductKind kind, ProductFault fault, uint64_t seed) {
    return FaultTest::IsRight(seed, [&](const DeviceMatrix& matrix, const float* x, uint32_t operands, float* out) {
      return LaunchFaultyProduct(kind, fault, matrix, x, operands, out);
    });
  }
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
class FaultyTilesTest : public FaultTest {
 protected:
  FaultyTilesTest()
      : FaultTest(37, 96, 29, [](std::mt19937& random) {
          return static_cast<float>(static_cast<int>(random() % 255) - 127) / 64;
        }) {}

  bool IsRight(ProductFault fault, bool decodes, uint64_t seed) {
    return FaultTest::IsRight(seed, [&](const DeviceMatrix& matrix, const float* x, uint32_t operands, float* out) {
      return LaunchFaultyTiles(fault, decodes, matrix, x, operands, out);
    });
  }
};

TEST_F(FaultyTilesTest, WithoutAFaultTheyAreRight) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    EXPECT_TRUE(IsRight(ProductFault::kNone, false, seed)) << seed;
    EXPECT_TRUE(IsRight(ProductFault::kNone, true, seed)) << seed;
  }
}

TEST_F(FaultyTilesTest, EachFaultIsSeen) {
  for (const ProductFault fault :
       {ProductFault::kNoBarrier, ProductFault::kSwappedFragments, ProductFault::kNextEight, ProductFault::kNextRow,
        ProductFault::kNextColumn, ProductFault::kNextOperand, ProductFault::kOneRowTooMany}) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      EXPECT_FALSE(IsRight(fault, false, seed)) << static_cast<int>(fault) << ", " << seed;
      EXPECT_FALSE(IsRight(fault, true, seed)) << static_cast<int>(fault) << ", " << seed;
    }
  }
}

}  // namespace
}  // namespace meshseal::cuda
