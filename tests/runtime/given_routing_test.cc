// route_given alone: the caller's routing as it is, and what is refused of one.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "schema/reason.h"
#include "tests/runtime/single_steps.h"

namespace meshseal::runtime {
namespace {

struct Routed {
  absl::Status status;
  std::vector<int32_t> experts;
  std::vector<float> weights;
};

// Two slots for each token, the first of which is number 7; the layer has 4 experts.
Routed Route(const std::vector<int32_t>& experts, const std::vector<float>& weights) {
  Routed routed;
  routed.experts.resize(experts.size());
  routed.weights.resize(weights.size());
  StepShape shape = Shape(static_cast<uint32_t>(experts.size() / 2), 2, 1);
  shape.first_token = 7;
  routed.status = SingleSteps().RouteGiven(
      {shape, 4, {experts, weights}, absl::MakeSpan(routed.experts), absl::MakeSpan(routed.weights)});
  return routed;
}

TEST(GivenRoutingTest, IsTakenAsItIs) {
  const std::vector<int32_t> experts = {3, 0, 0, 1};
  const std::vector<float> weights = {-2, 0, 1e30f, 0.5f};
  const Routed routed = Route(experts, weights);
  ASSERT_TRUE(routed.status.ok()) << routed.status;
  EXPECT_EQ(routed.experts, experts);
  EXPECT_EQ(routed.weights, weights);
  EXPECT_TRUE(Route({}, {}).status.ok());
}

TEST(GivenRoutingTest, RefusalsNameTheToken) {
  const auto refusal = [](const std::vector<int32_t>& experts, const std::vector<float>& weights) {
    const absl::Status status = Route(experts, weights).status;
    EXPECT_EQ(ReasonOf(status), Reason::kUsage);
    return std::string(status.message());
  };
  EXPECT_EQ(refusal({3, 0, 1, 4}, {1, 1, 1, 1}), "token 8: the given routing selects expert 4 of 4");
  EXPECT_EQ(refusal({-1, 0, 1, 2}, {1, 1, 1, 1}), "token 7: the given routing selects expert -1 of 4");
  EXPECT_EQ(refusal({3, 0, 1, 1}, {1, 1, 1, 1}), "token 8: the given routing selects expert 1 twice");
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    EXPECT_EQ(refusal({3, 0, 1, 2}, {1, bad, 1, 1}),
              "token 7: the given routing weighs expert 0 with a number that is not finite");
  }
}

}  // namespace
}  // namespace meshseal::runtime
