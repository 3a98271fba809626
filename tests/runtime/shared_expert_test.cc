// The steps of the shared expert, on a rank with columns of it and on one without.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/runtime/single_steps.h"

namespace meshseal::runtime {
namespace {

const std::vector<float> kX = {1, 2, 3, 4};  // two tokens of two

TEST(SharedExpertTest, ProductsActivationsAndTheOwnGate) {
  const std::vector<float> gate = {1, 0, 0, 1};
  const std::vector<float> up = {2, 0, 0, 3};
  const std::vector<float> down = {1, 1, 1, -1};
  const std::vector<float> expert_gate = {0.5f, -1};
  SharedWeights shared;
  shared.gate = Matrix(gate, 2);
  shared.up = Matrix(up, 2);
  shared.down = Matrix(down, 2);
  std::vector<float> products(8);
  ASSERT_TRUE(SingleSteps().SharedGateUp({Shape(2, 1, 2), Basis::kF32, shared, kX, absl::MakeSpan(products)}).ok());
  EXPECT_EQ(products, (std::vector<float>{1, 2, 2, 6, 3, 4, 6, 12}));

  std::vector<float> activations(4);
  ASSERT_TRUE(SingleSteps()
                  .SharedActivation({Shape(2, 1, 2), 2, Activation{ActivationKind::kSwiGlu, 0, 0}, products,
                                     absl::MakeSpan(activations)})
                  .ok());
  EXPECT_NEAR(activations[0], 2 / (1 + std::exp(-1.0)), 1e-6);
  EXPECT_NEAR(activations[3], 48 / (1 + std::exp(-4.0)), 1e-5);

  const std::vector<float> given = {1, 2, 4, 3};
  std::vector<float> out(4);
  const auto share_down = [&] {
    return SingleSteps().SharedDown({Shape(2, 1, 2), Basis::kF32, shared, given, kX, absl::MakeSpan(out)});
  };
  ASSERT_TRUE(share_down().ok());
  EXPECT_EQ(out, (std::vector<float>{3, -1, 7, 1}));
  shared.expert_gate = Matrix(expert_gate, 1);
  ASSERT_TRUE(share_down().ok());
  EXPECT_NEAR(out[0], 3 / (1 + std::exp(1.5)), 1e-6);
  EXPECT_NEAR(out[1], -1 / (1 + std::exp(1.5)), 1e-6);
  EXPECT_NEAR(out[2], 7 / (1 + std::exp(2.5)), 1e-6);
}

TEST(SharedExpertTest, WithoutAGateThereAreUpColumnsAlone) {
  const std::vector<float> up = {2, 0, 0, -3};
  SharedWeights shared;
  shared.up = Matrix(up, 2);
  std::vector<float> products(4);
  ASSERT_TRUE(SingleSteps().SharedGateUp({Shape(2, 1, 2), Basis::kF32, shared, kX, absl::MakeSpan(products)}).ok());
  EXPECT_EQ(products, (std::vector<float>{2, -6, 6, -12}));
  std::vector<float> activations(4);
  ASSERT_TRUE(SingleSteps()
                  .SharedActivation({Shape(2, 1, 2), 2, Activation{ActivationKind::kRelu2, 0, 0}, products,
                                     absl::MakeSpan(activations)})
                  .ok());
  EXPECT_EQ(activations, (std::vector<float>{4, 0, 36, 0}));
}

// The same bases as the routed experts: the operands of both products are rounded.
TEST(SharedExpertTest, OperandsAreRoundedToTheirBasis) {
  const std::vector<float> one = {1, 1};
  const std::vector<float> x = {1 + 0x1p-9f, 0};
  SharedWeights shared;
  shared.up = Matrix(one, 1);
  shared.down = Matrix(one, 2);
  std::vector<float> out(2);
  ASSERT_TRUE(SingleSteps().SharedGateUp({Shape(1, 1, 2), Basis::kBf16, shared, x, absl::MakeSpan(out).first(1)}).ok());
  EXPECT_EQ(out[0], 1);
  ASSERT_TRUE(
      SingleSteps()
          .SharedDown({Shape(1, 1, 2), Basis::kBf16, shared, absl::MakeConstSpan(x).first(1), x, absl::MakeSpan(out)})
          .ok());
  EXPECT_EQ(out[1], 1);
}

TEST(SharedExpertTest, ARankWithoutColumnsGivesExactZeros) {
  const std::vector<float> expert_gate = {0.5f, -1};
  SharedWeights shared;
  shared.expert_gate = Matrix(expert_gate, 1);
  const StepShape shape = Shape(2, 1, 2);
  EXPECT_TRUE(SingleSteps().SharedGateUp({shape, Basis::kF32, shared, kX, {}}).ok());
  EXPECT_TRUE(SingleSteps().SharedActivation({shape, 0, {ActivationKind::kSwiGlu, 0, 0}, {}, {}}).ok());
  std::vector<float> out(4, NAN);
  ASSERT_TRUE(SingleSteps().SharedDown({shape, Basis::kF32, shared, {}, kX, absl::MakeSpan(out)}).ok());
  for (const float value : out) EXPECT_EQ(std::bit_cast<uint32_t>(value), 0u);
}

TEST(SharedExpertTest, IsAddedLastAndUnweighted) {
  const std::vector<int32_t> experts = {0, 1, 0, 0};
  const std::vector<float> weights = {0.5f, 2, NAN, NAN};
  const std::vector<ExpertPlace> local = HeldAs({-1, 0});
  const std::vector<float> slots = {NAN, 3, NAN, NAN};
  const std::vector<float> shared = {10, 20};
  std::vector<float> out(2, NAN);
  ASSERT_TRUE(SingleSteps()
                  .CombineShared(
                      {{Shape(2, 2, 1), {{experts, weights}, local, 0, 2}, true, slots, absl::MakeSpan(out)}, shared})
                  .ok());
  EXPECT_EQ(out, (std::vector<float>{16, 20}));
  // After the slots: 1 + 2^-24 would be 1 first.
  const std::vector<int32_t> both = {1, 1};
  const std::vector<float> ones = {1, 1};
  const std::vector<float> rows = {-1, 0x1p-24f};
  out.resize(1);
  ASSERT_TRUE(SingleSteps()
                  .CombineShared({{Shape(1, 2, 1), {{both, ones}, local, 0, 2}, true, rows, absl::MakeSpan(out)},
                                  absl::MakeConstSpan(ones).first(1)})
                  .ok());
  EXPECT_EQ(out[0], -1 + 0x1p-24f + 1);
}

}  // namespace
}  // namespace meshseal::runtime
