// What a plan may ask for and no step executes: refused by name, all of it at once.
#include "runtime/program/executed.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schema/reason.h"
#include "tests/support/plan_builder.h"

namespace meshseal::runtime {
namespace {

using support::PlanNumbers;

std::string Refusal(const Plan& plan, ExecutorKind executor) {
  const absl::Status status = CheckExecuted(plan, executor);
  if (status.ok()) return "";
  EXPECT_EQ(ReasonOf(status), Reason::kNotBuilt);
  const std::string text(status.message());
  const std::string start = absl::StrCat("executor '", NameOf(executor), "' does not execute what the plan asks for: ");
  EXPECT_EQ(text.substr(0, start.size()), start);
  return text.substr(start.size());
}

std::string Refusal(const PlanNumbers& numbers) {
  return Refusal(support::BuildPlan(numbers), ExecutorKind::kReference);
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

TEST(ExecutedTest, RanksOnDevicesAloneHaveRepackedWeights) {
  PlanNumbers n;
  for (const Repack repack : {Repack::kByExpert, Repack::kByTensor}) {
    n.repack = repack;
    EXPECT_EQ(Refusal(n), "repacked weights (nearest: repack: none)");
    EXPECT_EQ(Refusal(support::BuildPlan(n), ExecutorKind::kCuda), "");
  }
}

TEST(ExecutedTest, EverythingIsNamedOnce) {
  PlanNumbers n;
  n.layers = 2;
  n.gate_up_basis = n.down_basis = Basis::kRotated;
  n.router.scoring = Scoring::kPrecomputed;
  n.router.renormalize = Renormalize::kNone;
  EXPECT_EQ(Refusal(n),
            "activation_basis.gate_up rotated (nearest: f32, bf16, f16 or q8, and weights that are not rotated); "
            "activation_basis.down rotated (nearest: f32, bf16, f16 or q8, and weights that are not rotated)");
  n = PlanNumbers();
  n.router.scoring = Scoring::kPrecomputed;
  n.router.renormalize = Renormalize::kNone;
  EXPECT_EQ(Refusal(n), "");
}

TEST(ExecutedTest, ExecutorsDiffer) {
  Plan plan = support::BuildPlan({});
  plan.mesh.nodes[0].identity = {"GPU-0"};
  EXPECT_EQ(Refusal(plan, ExecutorKind::kReference),
            "devices pinned by identity (nearest: a mesh whose nodes pin none)");
  EXPECT_EQ(Refusal(plan, ExecutorKind::kCuda), "");
  EXPECT_EQ(ExecutorOf(plan), ExecutorKind::kReference);
  plan.mesh.device_kinds[0].memory_kind = MemoryKind::kUnified;
  EXPECT_EQ(ExecutorOf(plan), ExecutorKind::kCuda);
  EXPECT_EQ(ExecutorNamed("cuda"), ExecutorKind::kCuda);
  EXPECT_EQ(ExecutorNamed("cuda-loopback"), std::nullopt);
  EXPECT_EQ(ExecutorNames(), (std::vector<std::string>{"reference", "cuda"}));
}

TEST(ExecutedTest, WhatADeviceLacksIsTheCudaExecutorsAlone) {
  Plan plan = support::BuildPlan({});
  plan.layer_classes[0].experts = 6200;
  plan.mesh.device_kinds[0].shared_memory = 1;
  EXPECT_EQ(Refusal(plan, ExecutorKind::kReference), "");
  const std::string both = Refusal(plan, ExecutorKind::kCuda);
  EXPECT_NE(both.find("a choice among 6200 experts: "), std::string::npos) << both;
  EXPECT_NE(both.find("programs on devices of kind 'host': kernel "), std::string::npos) << both;
  plan.layer_classes[0].router.scoring = Scoring::kPrecomputed;
  plan.mesh.device_kinds[0].shared_memory = 48 << 10;
  EXPECT_EQ(Refusal(plan, ExecutorKind::kCuda), "");
}

// Numbers that lead nowhere, as `show` may meet them in a plan that a gate refuses.
TEST(ExecutedTest, ABrokenPlanIsNoReasonToCrash) {
  Plan plan = support::BuildPlan({});
  plan.degrees = {};
  plan.mesh.rank_slots[0].node = 7;
  EXPECT_EQ(Refusal(plan, ExecutorKind::kCuda), "");
  EXPECT_EQ(ExecutorOf(plan), ExecutorKind::kReference);
  plan.mesh.rank_slots[0].node = 0;
  plan.mesh.nodes[0].device_kind = 9;
  EXPECT_EQ(Refusal(plan, ExecutorKind::kCuda), "");
}

}  // namespace
}  // namespace meshseal::runtime
