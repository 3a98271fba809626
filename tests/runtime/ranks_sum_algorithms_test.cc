// Plans whose programs sum in different ways: whichever way a sum's size asks for, the bits are those of rank order.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/session/session.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/plan_builder.h"
#include "tests/support/sanitized.h"

namespace meshseal::runtime {
namespace {

using support::PlanNumbers;

constexpr ReduceAlgorithm kGather = ReduceAlgorithm::kGatherThenSum;
constexpr ReduceAlgorithm kExchange = ReduceAlgorithm::kExchangeThenSum;

// On four ranks sums are exchanged from 171 tokens on.
constexpr uint32_t kMostGathered = 170;
constexpr uint32_t kTokens = 180;

class SumAlgorithmsTest : public testing::Test {
 protected:
  SumAlgorithmsTest() {
    numbers_.hidden = 1024;
    numbers_.intermediate = 4;
    numbers_.prefill_tokens = kTokens;
    numbers_.residual = Residual::kAdd;
    support::WriteCheckpoint(folder_.path(), support::RandomCheckpoint(support::BuildPlan(numbers_), 3));
    hidden_ = support::RandomValues(size_t{kTokens} * numbers_.hidden, 7);
  }

  // A session whose programs take so many tokens, and sum in these ways.
  std::unique_ptr<Session> Open(uint32_t tp, uint32_t ep, std::pair<uint32_t, ReduceAlgorithm> decode,
                                std::pair<uint32_t, ReduceAlgorithm> prefill) {
    PlanNumbers n = numbers_;
    n.tp = tp;
    n.ep = ep;
    n.decode_tokens = decode.first;
    n.prefill_chunk = prefill.first;
    const Plan plan = support::BuildPlan(n);
    EXPECT_EQ(plan.layer_classes[0].programs[0].reduce_algorithm, decode.second);
    EXPECT_EQ(plan.layer_classes[0].programs[1].reduce_algorithm, prefill.second);
    SessionOptions options;
    options.weights = {folder_.path()};
    options.unverified_weights = true;
    absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(support::Seal(plan), options);
    EXPECT_TRUE(session.ok()) << session.status();
    return session.ok() ? *std::move(session) : nullptr;
  }

  // The bits of the first tokens' rows.
  std::vector<uint32_t> Run(Session& session, Phase phase, uint32_t tokens) const {
    const size_t elements = size_t{tokens} * numbers_.hidden;
    std::vector<float> output(elements);
    RunResult result;
    const absl::Status status =
        session.Run({0, phase, tokens, absl::MakeConstSpan(hidden_).first(elements), absl::MakeSpan(output)}, &result);
    EXPECT_TRUE(status.ok()) << status;
    std::vector<uint32_t> bits(elements);
    std::transform(output.begin(), output.end(), bits.begin(),
                   [](float value) { return std::bit_cast<uint32_t>(value); });
    return bits;
  }

  std::vector<uint32_t> FirstRows(const std::vector<uint32_t>& bits, uint32_t tokens) const {
    return {bits.begin(), bits.begin() + static_cast<ptrdiff_t>(size_t{tokens} * numbers_.hidden)};
  }

 private:
  PlanNumbers numbers_;
  const support::TempFolder folder_;
  std::vector<float> hidden_;
};

TEST_F(SumAlgorithmsTest, GatheredDecodeAndExchangedPrefillHaveTheBitsOfEitherAlone) {
  for (const auto& [tp, ep] : {std::pair{1u, 4u}, std::pair{2u, 2u}}) {
    if (support::kSanitized && tp == 2) continue;
    SCOPED_TRACE(testing::Message() << "tp " << tp << " ep " << ep);
    const auto both = Open(tp, ep, {kMostGathered, kGather}, {kTokens, kExchange});
    const auto gathered = Open(tp, ep, {kMostGathered, kGather}, {64, kGather});
    const auto exchanged = Open(tp, ep, {kTokens, kExchange}, {kTokens, kExchange});
    ASSERT_TRUE(both != nullptr && gathered != nullptr && exchanged != nullptr);

    const std::vector<uint32_t> bits = Run(*both, Phase::kPrefill, kTokens);
    EXPECT_TRUE(Run(*gathered, Phase::kPrefill, kTokens) == bits);
    EXPECT_TRUE(Run(*exchanged, Phase::kPrefill, kTokens) == bits);
    EXPECT_TRUE(Run(*exchanged, Phase::kDecode, kTokens) == bits);
    // From call to call on the same ranks, with the most tokens and with few.
    for (const uint32_t tokens : {kMostGathered, 13u, 1u}) {
      EXPECT_TRUE(Run(*both, Phase::kDecode, tokens) == FirstRows(bits, tokens)) << tokens;
      EXPECT_TRUE(Run(*both, Phase::kPrefill, tokens) == FirstRows(bits, tokens)) << tokens;
    }
  }
}

}  // namespace
}  // namespace meshseal::runtime
