// Fixed point and the steps of an exact sum, each alone, with numbers that are worked out by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "runtime/backend/backend.h"
#include "runtime/program/fixed_point.h"
#include "schema/reason.h"
#include "tests/runtime/single_steps.h"

namespace meshseal::runtime {
namespace {

TEST(FixedPointTest, RoundsToNearestAndTiesToEven) {
  const FixedPoint halves = {1, 1024};
  EXPECT_EQ(halves.Of(0.25f), 0);  // 0.5
  EXPECT_EQ(halves.Of(0.75f), 2);  // 1.5
  EXPECT_EQ(halves.Of(1.25f), 2);  // 2.5
  EXPECT_EQ(halves.Of(-0.25f), 0);
  EXPECT_EQ(halves.Of(-0.75f), -2);
  EXPECT_EQ(halves.Of(-1.25f), -2);
  EXPECT_EQ(halves.Of(std::nextafter(0.25f, 1.0f)), 1);
  EXPECT_EQ(halves.Of(std::nextafter(1.25f, 0.0f)), 2);
  EXPECT_EQ(halves.Of(std::nextafter(1.25f, 2.0f)), 3);
  EXPECT_EQ(halves.Of(-0.0f), 0);
  const FixedPoint most = {62, 1};
  EXPECT_EQ(most.Of(std::nextafter(1.0f, 0.0f)), (int64_t{1} << 62) - (int64_t{1} << 38));
  EXPECT_EQ(most.Of(-0.5f), -(int64_t{1} << 61));
  EXPECT_EQ(most.Of(std::numeric_limits<float>::denorm_min()), 0);
}

TEST(FixedPointTest, HoldsWhatIsFiniteAndBelowTheBound) {
  const FixedPoint fixed_point = {40, 1024};
  EXPECT_TRUE(fixed_point.Holds(0));
  EXPECT_TRUE(fixed_point.Holds(std::nextafter(1024.0f, 0.0f)));
  EXPECT_TRUE(fixed_point.Holds(-std::nextafter(1024.0f, 0.0f)));
  EXPECT_FALSE(fixed_point.Holds(1024));
  EXPECT_FALSE(fixed_point.Holds(-1024));
  EXPECT_FALSE(fixed_point.Holds(std::numeric_limits<float>::infinity()));
  EXPECT_FALSE(fixed_point.Holds(-std::numeric_limits<float>::infinity()));
  EXPECT_FALSE(fixed_point.Holds(std::numeric_limits<float>::quiet_NaN()));
}

// A sum becomes a float32 by one rounding. By way of a float64 these would be rounded twice, and the wrong way.
TEST(FixedPointTest, SumsAreRoundedOnce) {
  const FixedPoint whole = {0, 1};
  const int64_t power = int64_t{1} << 62;
  const int64_t half = int64_t{1} << 38;            // of the distance between two float32 at 2^62
  EXPECT_EQ(whole.ToFloat(power + half), 0x1p62f);  // a tie: to even
  EXPECT_EQ(whole.ToFloat(power + half + 1), 0x1.000002p62f);
  EXPECT_EQ(whole.ToFloat(-(power + half + 1)), -0x1.000002p62f);
  EXPECT_EQ(whole.ToFloat(power + 3 * half), 0x1.000004p62f);
  EXPECT_EQ(whole.ToFloat(power + 3 * half - 1), 0x1.000002p62f);
  const FixedPoint most = {62, 1};
  EXPECT_EQ(most.ToFloat(power + half + 1), 0x1.000002p0f);
  EXPECT_EQ(most.ToFloat(1), 0x1p-62f);
  EXPECT_EQ(most.ToFloat(-3), -0x1.8p-61f);
  EXPECT_EQ(std::signbit(most.ToFloat(0)), false);
}

// Two segments of two columns, whose products are ties: each is rounded for itself, and before they are added.
TEST(ExactStepsTest, DownRoundsSegmentBySegment) {
  const std::vector<float> down = {1, 1, 1, 0.5f, 2, 0, 0, 0};  // [2, 4]
  const std::vector<float> bias = {0.25f, 1};
  std::vector<ExpertWeights> experts(1);
  experts[0].down = Matrix(down, 2);
  experts[0].down_bias = Matrix(bias, 1);
  const std::vector<ExpertPlace> places = HeldAs({-1, 0});
  const std::vector<int32_t> ids = {1, 0};
  const std::vector<float> weights = {0.5f, 1};
  const std::vector<float> activations = {0.5f, 1, 1, 1, 9, 9, 9, 9};
  const std::vector<uint32_t> ends = {2, 4};
  std::vector<int64_t> out(4, 77);
  StepCounters counters;
  DownExactArgs args;
  args.shape = Shape(1, 2, 2, 4);
  args.owned = {{ids, weights}, places, 0, 2};
  args.weighs = true;
  args.adds_bias = true;
  args.basis = Basis::kF32;
  args.fixed_point = {1, 1024};
  args.segment_ends = ends;
  args.experts = experts;
  args.activations = activations;
  args.out = absl::MakeSpan(out);
  args.counters = &counters;
  SingleSteps backend;
  ASSERT_TRUE(backend.DownExact(args).ok());
  // Row 0: 0.5 * 1.5 = 0.75 -> 1.5 halves -> 2; 0.5 * 1.5 -> 2; bias 0.125 -> 0. Row 1: 0.5 * 1 -> 1; 0; bias 0.5 -> 1.
  EXPECT_EQ(out, (std::vector<int64_t>{4, 2, 77, 77}));
  EXPECT_EQ(counters.down_slots, 1u);

  const std::vector<uint32_t> one = {4};
  args.segment_ends = one;
  args.adds_bias = false;
  ASSERT_TRUE(backend.DownExact(args).ok());
  EXPECT_EQ(out, (std::vector<int64_t>{3, 1, 77, 77}));  // 0.5 * 3 = 1.5

  args.weighs = false;
  ASSERT_TRUE(backend.DownExact(args).ok());
  EXPECT_EQ(out, (std::vector<int64_t>{6, 2, 77, 77}));

  args.fixed_point.bound = 3;
  args.shape.first_token = 40;
  const absl::Status status = backend.DownExact(args);
  EXPECT_EQ(status.message(), "token 40: the output of expert 1 is 3, not below the bound 3");
  EXPECT_EQ(ReasonOf(status), Reason::kBound);
}

// The gate is multiplied in before the conversion: sigmoid(0) = 0.5.
TEST(ExactStepsTest, TheSharedExpertIsGatedAndThenRounded) {
  const std::vector<float> down = {1, 1, 2, 0};  // [2, 2]
  const std::vector<float> gate = {0, 0};
  const std::vector<float> x = {3, 4};
  const std::vector<float> activations = {1.5f, 0.5f};
  const std::vector<uint32_t> ends = {1, 2};
  std::vector<int64_t> out(2, 77);
  SharedDownExactArgs args;
  args.shape = Shape(1, 1, 2);
  args.basis = Basis::kF32;
  args.fixed_point = {1, 1024};
  args.segment_ends = ends;
  args.shared.down = Matrix(down, 2);
  args.shared.expert_gate = Matrix(gate, 1);
  args.activations = activations;
  args.x = x;
  args.out = absl::MakeSpan(out);
  SingleSteps backend;
  ASSERT_TRUE(backend.SharedDownExact(args).ok());
  EXPECT_EQ(out, (std::vector<int64_t>{2, 3}));  // 0.75 -> 2, 0.25 -> 0; 1.5 -> 3, 0

  args.fixed_point.bound = 1.5;
  args.shape.first_token = 7;
  const absl::Status status = backend.SharedDownExact(args);
  EXPECT_EQ(status.message(), "token 7: the output of the shared expert is 1.5, not below the bound 1.5");
  EXPECT_EQ(ReasonOf(status), Reason::kBound);

  args.shared = {};
  args.segment_ends = absl::Span<const uint32_t>();
  args.activations = absl::Span<const float>();
  ASSERT_TRUE(backend.SharedDownExact(args).ok());
  EXPECT_EQ(out, (std::vector<int64_t>{0, 0}));
}

TEST(ExactStepsTest, CombineAddsOwnedSlotsAndTheSharedExpert) {
  const std::vector<ExpertPlace> places = HeldAs({0, -1, 1});
  const std::vector<int32_t> ids = {0, 2, 1, 0, 1, 1};
  const std::vector<float> weights(6, 0.125f);  // are in the slots
  const std::vector<int64_t> slots = {1, int64_t{1} << 60, 20, -5, -1, -1, 7, 8, -1, -1, -1, -1};
  std::vector<int64_t> out(6, 77);
  const CombineExactArgs args = {Shape(3, 2, 2), {{ids, weights}, places, 0, 2}, slots, absl::MakeSpan(out)};
  SingleSteps backend;
  ASSERT_TRUE(backend.CombineExact(args).ok());
  EXPECT_EQ(out, (std::vector<int64_t>{21, (int64_t{1} << 60) - 5, 7, 8, 0, 0}));
  const std::vector<int64_t> shared = {-21, 1, 0, 0, 2, -3};
  ASSERT_TRUE(backend.CombineSharedExact({args, shared}).ok());
  EXPECT_EQ(out, (std::vector<int64_t>{0, (int64_t{1} << 60) - 4, 7, 8, 2, -3}));
}

class OwnNumerics : public ReferenceBackend {
 public:
  absl::Span<const Numerics> numerics() const override {
    static constexpr Numerics kSatisfied[] = {Numerics::kBackendOwn};
    return kSatisfied;
  }
};

TEST(NumericsTest, AContractThatABackendDoesNotSatisfyIsRefused) {
  const auto check = [](const Backend& backend, Numerics contract) {
    return CheckNumerics(backend.name(), backend.numerics(), contract);
  };
  EXPECT_TRUE(check(ReferenceBackend(), Numerics::kReference1).ok());
  EXPECT_TRUE(check(ReferenceBackend(), Numerics::kBackendOwn).ok());
  EXPECT_TRUE(check(OwnNumerics(), Numerics::kBackendOwn).ok());
  const absl::Status status = check(OwnNumerics(), Numerics::kReference1);
  EXPECT_EQ(status.message(), "the plan's numerics are reference-1, backend 'reference' has backend's own");
  EXPECT_EQ(ReasonOf(status), Reason::kNotBuilt);
}

}  // namespace
}  // namespace meshseal::runtime
