// route_by_table alone: which experts, with what weights, and which ids and rows are refused.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "schema/reason.h"
#include "tests/runtime/single_steps.h"

namespace meshseal::runtime {
namespace {

// Logits 1, 2, 3, 4 of one token, number 41, whose hidden state is 1.
class TokenTableTest : public testing::Test {
 protected:
  template <class Element>
  absl::Status Route(const std::vector<Element>& table, int32_t id, const std::vector<float>& x = {1}) {
    WeightMatrix rows;
    rows.dtype = sizeof(Element) == 8 ? DType::kI64 : DType::kI32;
    rows.columns = 2;
    rows.rows = static_cast<uint32_t>(table.size() / 2);
    rows.row_bytes = 2 * sizeof(Element);
    rows.data = reinterpret_cast<const std::byte*>(table.data());
    StepShape shape = Shape(1, 2, 1);
    shape.first_token = 41;
    const std::vector<int32_t> ids = {id};
    return SingleSteps().RouteByTable({shape, router, Matrix(logits, 4),
                                       bias.empty() ? WeightMatrix{} : Matrix(bias, 1), rows, x, ids,
                                       absl::MakeSpan(experts), absl::MakeSpan(weights)});
  }

  Router router = {Scoring::kSqrtSoftplus,
                   0,
                   RouteOrder::kScoreThenTopK,
                   Renormalize::kSum,
                   0,
                   {},
                   WeightPoint::kOutput,
                   Basis::kF32,
                   1.5f,
                   3};
  const std::vector<float> logits = {1, 2, 3, 4};
  std::vector<float> bias;
  std::vector<int32_t> experts = std::vector<int32_t>(2);
  std::vector<float> weights = std::vector<float>(2);
};

TEST_F(TokenTableTest, TheRowsExpertsHaveTheRoutersWeights) {
  const auto score = [](double logit) { return std::sqrt(std::log1p(std::exp(logit))); };
  ASSERT_TRUE(Route<int32_t>({9, 9, 3, 0, 9, 9}, 1).ok());  // other rows are not read
  EXPECT_EQ(experts, (std::vector<int32_t>{3, 0}));         // in the row's order
  EXPECT_NEAR(weights[0], 1.5 * score(4) / (score(4) + score(1)), 1e-6);
  EXPECT_NEAR(weights[1], 1.5 * score(1) / (score(4) + score(1)), 1e-6);
  ASSERT_TRUE(Route<int64_t>({2, 1}, 0).ok());
  EXPECT_EQ(experts, (std::vector<int32_t>{2, 1}));
  bias = {5, 0, 0, 0};  // of the logits
  ASSERT_TRUE(Route<int32_t>({0, 3}, 0).ok());
  EXPECT_NEAR(weights[0], 1.5 * score(6) / (score(6) + score(4)), 1e-6);
}

TEST_F(TokenTableTest, RefusalsNameTokenAndRow) {
  const auto refusal = [&](const absl::Status& status, Reason reason) {
    EXPECT_EQ(ReasonOf(status), reason) << status;
    return std::string(status.message());
  };
  EXPECT_EQ(refusal(Route<int32_t>({0, 1}, 1), Reason::kUsage), "token 41 has the id 1, the vocabulary has 1");
  EXPECT_EQ(refusal(Route<int32_t>({0, 1}, -1), Reason::kUsage), "token 41 has the id -1, the vocabulary has 1");
  EXPECT_EQ(refusal(Route<int32_t>({0, 1, 0, 4}, 1), Reason::kWeightsTensor),
            "token 41: the token table's row 1 selects expert 4 of 4");
  EXPECT_EQ(refusal(Route<int64_t>({-(int64_t{1} << 32), 1}, 0), Reason::kWeightsTensor),
            "token 41: the token table's row 0 selects expert -4294967296 of 4");
  EXPECT_EQ(refusal(Route<int32_t>({2, 2}, 0), Reason::kWeightsTensor),
            "token 41: the token table's row 0 selects expert 2 twice");
  EXPECT_EQ(refusal(Route<int32_t>({0, 1}, 0, {NAN}), Reason::kNonFinite),
            "token 41: the router score of expert 0 is not finite");
}

}  // namespace
}  // namespace meshseal::runtime
