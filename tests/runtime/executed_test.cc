// What a plan may ask for and no step executes: refused by name, all of it at once.
#include "runtime/program/executed.h"

#include <gtest/gtest.h>

#include <string>

#include "schema/reason.h"
#include "tests/support/plan_builder.h"

namespace meshseal::runtime {
namespace {

using support::PlanNumbers;

std::string Refusal(const PlanNumbers& numbers) {
  const absl::Status status = CheckExecuted(support::BuildPlan(numbers));
  if (status.ok()) return "";
  EXPECT_EQ(ReasonOf(status), Reason::kNotBuilt);
  const std::string text(status.message());
  const std::string start = "this version does not execute what the plan asks for: ";
  EXPECT_EQ(text.substr(0, start.size()), start);
  return text.substr(start.size());
}

TEST(ExecutedTest, EveryStep) {
  PlanNumbers n;
  n.ep = 2;
  n.copies = 3;
  n.router.weight_applied = WeightPoint::kActivation;
  n.router.vocabulary = 5;
  n.activation.kind = ActivationKind::kRelu2;
  n.gate_up_basis = Basis::kF16;
  n.down_basis = Basis::kBf16;
  n.output = Basis::kF16;
  n.residual = Residual::kAdd;
  EXPECT_EQ(Refusal(n), "");
  n.reduction = Reduction::kExact;
  EXPECT_EQ(Refusal(n), "");
  n.router.vocabulary = 0;
  n.dense_tp = 1;
  n.reduction = Reduction::kFast;
  EXPECT_EQ(Refusal(n), "");
}

TEST(ExecutedTest, EverythingIsNamedOnce) {
  PlanNumbers n;
  n.layers = 2;
  n.gate_up_basis = n.down_basis = Basis::kRotated;
  n.router.scoring = Scoring::kPrecomputed;
  n.router.renormalize = Renormalize::kNone;
  EXPECT_EQ(Refusal(n), "activation_basis.gate_up rotated; activation_basis.down rotated");
  n = PlanNumbers();
  n.router.scoring = Scoring::kPrecomputed;
  n.router.renormalize = Renormalize::kNone;
  EXPECT_EQ(Refusal(n), "");
}

}  // namespace
}  // namespace meshseal::runtime
