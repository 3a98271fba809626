// activation and shared_activation against the reference's steps.
#include "runtime/cuda/kernels/activation.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "runtime/program/rank_facts.h"
#include "tests/cuda/kernel_buffers.h"
#include "tests/runtime/single_steps.h"

namespace meshseal::cuda {
namespace {

std::vector<Activation> EveryRule() {
  std::vector<Activation> rules;
  for (const ActivationKind kind : {ActivationKind::kSwiGlu, ActivationKind::kGeGlu, ActivationKind::kRelu2,
                                    ActivationKind::kSwiGluOai, ActivationKind::kSwiGluPreclamp}) {
    Activation rule;
    rule.kind = kind;
    rule.alpha = kind == ActivationKind::kSwiGluOai ? 1.702f : 0;
    rule.limit = kind == ActivationKind::kSwiGluOai || kind == ActivationKind::kSwiGluPreclamp ? 7 : 0;
    rules.push_back(rule);
  }
  return rules;
}

// Products with what no clamp and no exponential may stumble over.
std::vector<float> Products(size_t count) {
  std::vector<float> values = Numbers(count, 9);
  const float special[] = {0.0f,
                           -0.0f,
                           7.0f,
                           -7.0f,
                           1e30f,
                           -1e30f,
                           1e-40f,
                           std::numeric_limits<float>::quiet_NaN(),
                           std::numeric_limits<float>::infinity(),
                           -std::numeric_limits<float>::infinity()};
  for (size_t i = 0; i < values.size() && i < 40; ++i) {
    if (i % 2 == 0) values[i] = special[i / 2 % 10];
  }
  return values;
}

TEST(ActivationKernelTest, EveryRuleOnOwnedSlots) {
  const uint32_t columns = 150;
  const std::vector<runtime::ExpertPlace> places = HalfHeld(6, true);
  for (const Activation& rule : EveryRule()) {
    for (const uint32_t tokens : {0u, 1u, 5u}) {
      for (const bool weighs : {false, true}) {
        const uint32_t top_k = 2;
        runtime::StepShape shape = runtime::Shape(tokens, top_k, 1, columns);
        shape.gated = runtime::HasGate(rule.kind);
        shape.first_token = 3;
        const std::vector<int32_t> experts = RandomExperts(tokens, top_k, 6, 2);
        const std::vector<float> weights = Numbers(experts.size(), 3);
        const std::vector<float> products = Products(shape.slots() * shape.products());
        std::vector<float> expected = Unwritten<float>(shape.slots() * columns);
        runtime::SingleSteps steps;
        ASSERT_TRUE(
            steps
                .Activation(
                    {shape, {{experts, weights}, places, 3, top_k}, weighs, rule, products, absl::MakeSpan(expected)})
                .ok());
        expected.resize(7 * top_k * columns, std::numeric_limits<float>::quiet_NaN());
        const StepTokens step_tokens = Tokens(tokens, 3);
        UnderEverySchedule([&] {
          std::vector<float> out = Unwritten<float>(expected.size());
          ActivationStep step;
          step.grid.step = &step_tokens;
          step.grid.max_tokens = 7;
          step.grid.top_k = top_k;
          step.grid.columns = columns;
          step.grid.gated = shape.gated;
          step.owned = {experts.data(), weights.data(), places.data()};
          step.weighs = weighs;
          step.rule = rule;
          step.gate_up = products.data();
          step.out = out.data();
          const cudaError_t status = LaunchActivation(nullptr, step);
          EXPECT_TRUE(SameBits(out, expected)) << static_cast<int>(rule.kind);
          return status;
        });
      }
    }
  }
}

TEST(SharedActivationKernelTest, EveryRuleOnEveryToken) {
  for (const Activation& rule : EveryRule()) {
    for (const uint32_t columns : {0u, 33u}) {
      const uint32_t tokens = 3;
      const bool gated = runtime::HasGate(rule.kind);
      const std::vector<float> products = Products(size_t{tokens} * columns * (gated ? 2 : 1));
      std::vector<float> expected(size_t{tokens} * columns);
      runtime::SingleSteps steps;
      ASSERT_TRUE(
          steps.SharedActivation({runtime::Shape(tokens, 1, 1), columns, rule, products, absl::MakeSpan(expected)})
              .ok());
      expected.resize(4 * columns, std::numeric_limits<float>::quiet_NaN());
      const StepTokens step_tokens = Tokens(tokens);
      UnderEverySchedule([&] {
        std::vector<float> out = Unwritten<float>(expected.size());
        SharedActivationStep step;
        step.grid.step = &step_tokens;
        step.grid.max_tokens = 4;
        step.grid.columns = columns;
        step.grid.gated = gated;
        step.rule = rule;
        step.gate_up = products.data();
        step.out = out.data();
        const cudaError_t status = LaunchSharedActivation(nullptr, step);
        EXPECT_TRUE(SameBits(out, expected));
        return status;
      });
    }
  }
}

}  // namespace
}  // namespace meshseal::cuda
