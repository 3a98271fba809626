// combine, combine_shared and their exact forms, and residual, against the reference's steps.
#include "runtime/cuda/kernels/combine.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/cuda/kernels/residual.h"
#include "tests/cuda/kernel_buffers.h"
#include "tests/runtime/single_steps.h"

namespace meshseal::cuda {
namespace {

constexpr uint32_t kMaxTokens = 5;
constexpr uint32_t kExperts = 10;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Combined {
  uint32_t tokens = 0;
  uint32_t top_k = 1;
  uint32_t hidden = 1;
  bool weighs = false;
  bool shared = false;
  std::vector<runtime::ExpertPlace> places = HalfHeld(kExperts, true);
  // Not finite: of slot rows [slot, h], of the shared expert's [token, h].
  std::vector<std::pair<uint32_t, uint32_t>> bad_slots = {};
  std::vector<std::pair<uint32_t, uint32_t>> bad_shared = {};
};

// The failure of the lists in order, in the reference's words; "" for none.
std::string FailureText(const std::vector<uint64_t>& failures, uint32_t tokens, uint32_t hidden) {
  for (uint32_t token = 0; token < tokens; ++token) {
    uint64_t first = 0;
    for (uint32_t chunk = 0; chunk < CombineChunks(hidden); ++chunk) {
      const uint64_t word = failures[token * CombineChunks(hidden) + chunk];
      if (word != 0 && (first == 0 || FailureDetail(word) < FailureDetail(first))) first = word;
    }
    if (first == 0) continue;
    EXPECT_EQ(FailureKindOf(first), FailureKind::kOutput);
    const uint32_t expert = FailedExpert(first);
    return absl::StrCat("token ", 9 + token, ": the output of ",
                        expert == kSharedExpert ? "the shared expert" : absl::StrCat("expert ", expert),
                        " is not finite");
  }
  return "";
}

void ExpectLikeReference(const Combined& layer) {
  SCOPED_TRACE(absl::StrCat("T ", layer.tokens, " k ", layer.top_k, " H ", layer.hidden));
  runtime::StepShape shape = runtime::Shape(layer.tokens, layer.top_k, layer.hidden);
  shape.first_token = 9;
  const std::vector<int32_t> experts = RandomExperts(layer.tokens, layer.top_k, kExperts, 1);
  const std::vector<float> weights = Numbers(experts.size(), 2);
  const runtime::OwnedSlots owned = {{experts, weights}, layer.places, 9, layer.top_k};
  std::vector<float> slots = Numbers(shape.slots() * layer.hidden, 3);
  for (uint64_t slot = 0; slot < shape.slots(); ++slot) {  // of another rank: never read
    if (owned.LocalExpert(slot) >= 0) continue;
    std::fill_n(slots.begin() + static_cast<std::ptrdiff_t>(slot * layer.hidden), layer.hidden, kNan);
  }
  std::vector<float> shared = Numbers(size_t{layer.tokens} * layer.hidden, 4);
  for (const auto& [slot, h] : layer.bad_slots) slots[slot * layer.hidden + h] = kNan;
  for (const auto& [token, h] : layer.bad_shared) shared[token * layer.hidden + h] = -HUGE_VALF;

  std::vector<float> expected(size_t{layer.tokens} * layer.hidden);
  runtime::SingleSteps steps;
  const runtime::CombineArgs args = {shape, owned, layer.weighs, slots, absl::MakeSpan(expected)};
  const absl::Status status = layer.shared ? steps.CombineShared({args, shared}) : steps.Combine(args);
  expected.resize(size_t{kMaxTokens} * layer.hidden, kNan);

  const StepTokens step_tokens = Tokens(layer.tokens, 9);
  UnderEverySchedule([&] {
    std::vector<float> out = Unwritten<float>(expected.size());
    std::vector<uint64_t> failures = Unwritten<uint64_t>(size_t{kMaxTokens} * CombineChunks(layer.hidden));
    std::vector<uint64_t> shared_failures = failures;
    CombineStep step;
    step.grid.step = &step_tokens;
    step.grid.max_tokens = kMaxTokens;
    step.grid.top_k = layer.top_k;
    step.grid.hidden = layer.hidden;
    step.owned = {experts.data(), weights.data(), layer.places.data()};
    step.weighs = layer.weighs;
    step.slots = slots.data();
    step.shared = layer.shared ? shared.data() : nullptr;
    step.out = out.data();
    step.failures = failures.data();
    step.shared_failures = layer.shared ? shared_failures.data() : nullptr;
    const cudaError_t launched = LaunchCombine(nullptr, step);
    std::string text = FailureText(failures, layer.tokens, layer.hidden);
    if (text.empty() && layer.shared) text = FailureText(shared_failures, layer.tokens, layer.hidden);
    EXPECT_EQ(text, status.message());
    if (status.ok()) {
      EXPECT_TRUE(SameBits(out, expected));
    }
    EXPECT_EQ(failures.back(), layer.tokens == kMaxTokens ? failures.back() : ~uint64_t{0});
    return launched;
  });
}

TEST(CombineKernelTest, LikeTheReference) {
  for (const bool weighs : {false, true}) {
    for (const bool shared : {false, true}) {
      ExpectLikeReference({0, 5, 300, weighs, shared});
      ExpectLikeReference({1, 1, 255, weighs, shared});
      ExpectLikeReference({3, 5, 300, weighs, shared});
      ExpectLikeReference({kMaxTokens, 8, 1, weighs, shared});
    }
  }
}

TEST(CombineKernelTest, ATokenWithoutASlotIsExactZeros) {
  for (const bool shared : {false, true}) {
    Combined layer = {3, 2, 40, true, shared};
    layer.places = NoneHeld(kExperts);
    ExpectLikeReference(layer);
  }
}

TEST(CombineKernelTest, TheFirstOutputThatIsNotFiniteIsNamed) {
  Combined layer = {5, 5, 300, true, true};
  std::vector<runtime::ExpertPlace> all(kExperts);
  for (uint32_t expert = 0; expert < kExperts; ++expert) all[expert].local = static_cast<int32_t>(expert);
  layer.places = all;
  layer.bad_slots = {{13, 3}, {12, 299}, {21, 0}};  // of token 2 the lower slot fails in a later chunk
  ExpectLikeReference(layer);
  layer.bad_shared = {{0, 5}};  // after the slots of all tokens
  ExpectLikeReference(layer);
  layer.bad_slots.clear();
  layer.bad_shared = {{3, 30}, {1, 299}};
  ExpectLikeReference(layer);
}

TEST(CombineExactKernelTest, LikeTheReference) {
  for (const uint32_t tokens : {0u, 1u, 4u}) {
    const uint32_t hidden = 270;
    const uint32_t top_k = 4;
    const runtime::StepShape shape = runtime::Shape(tokens, top_k, hidden);
    const std::vector<int32_t> experts = RandomExperts(tokens, top_k, kExperts, 1);
    const std::vector<float> weights(experts.size(), 1);
    const std::vector<runtime::ExpertPlace> places = HalfHeld(kExperts);
    std::mt19937_64 random(7);
    std::vector<int64_t> slots(shape.slots() * hidden);
    std::vector<int64_t> shared(size_t{tokens} * hidden);
    for (int64_t& value : slots) value = static_cast<int64_t>(random()) >> 6;
    for (int64_t& value : shared) value = static_cast<int64_t>(random()) >> 6;
    for (const bool with_shared : {false, true}) {
      std::vector<int64_t> expected(size_t{tokens} * hidden);
      runtime::SingleSteps steps;
      const runtime::CombineExactArgs args = {
          shape, {{experts, weights}, places, 0, top_k}, slots, absl::MakeSpan(expected)};
      ASSERT_TRUE((with_shared ? steps.CombineSharedExact({args, shared}) : steps.CombineExact(args)).ok());
      expected.resize(size_t{kMaxTokens} * hidden, -1);
      const StepTokens step_tokens = Tokens(tokens);
      UnderEverySchedule([&] {
        std::vector<int64_t> out = Unwritten<int64_t>(expected.size());
        CombineExactStep step;
        step.grid.step = &step_tokens;
        step.grid.max_tokens = kMaxTokens;
        step.grid.top_k = top_k;
        step.grid.hidden = hidden;
        step.owned = {experts.data(), weights.data(), places.data()};
        step.slots = slots.data();
        step.shared = with_shared ? shared.data() : nullptr;
        step.out = out.data();
        const cudaError_t status = LaunchCombineExact(nullptr, step);
        EXPECT_EQ(out, expected);
        return status;
      });
    }
  }
}

TEST(ResidualKernelTest, LikeTheReference) {
  for (const uint32_t tokens : {0u, 1u, 4u}) {
    const uint32_t hidden = 97;
    const std::vector<float> reduced = Numbers(size_t{tokens} * hidden, 1);
    const std::vector<float> input = Numbers(size_t{tokens} * hidden, 2);
    std::vector<float> expected(reduced.size());
    runtime::SingleSteps steps;
    ASSERT_TRUE(steps.Residual({runtime::Shape(tokens, 1, hidden), reduced, input, absl::MakeSpan(expected)}).ok());
    expected.resize(size_t{kMaxTokens} * hidden, kNan);
    const StepTokens own = Tokens(tokens);
    UnderEverySchedule([&] {
      std::vector<float> out = Unwritten<float>(expected.size());
      const cudaError_t status =
          LaunchResidual(nullptr, {&own, kMaxTokens, hidden, reduced.data(), input.data(), out.data()});
      EXPECT_TRUE(SameBits(out, expected));
      return status;
    });
  }
}

}  // namespace
}  // namespace meshseal::cuda
