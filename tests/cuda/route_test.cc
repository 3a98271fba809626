// The routing kernels against the reference's steps.
#include "runtime/cuda/kernels/route.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/backend/basis.h"
#include "runtime/reference/dot.h"
#include "schema/terms.h"
#include "tests/cuda/kernel_buffers.h"
#include "tests/runtime/single_steps.h"

namespace meshseal::cuda {
namespace {

constexpr uint32_t kHidden = 4;

struct Layer {
  uint32_t tokens = 0;
  uint32_t max_tokens = 0;
  uint32_t top_k = 1;
  uint32_t experts = 1;
  Router rule;
  bool has_bias = false;
  bool has_selection_bias = false;
};

Router Rule(Scoring scoring, RouteOrder order, Renormalize renormalize, Basis input = Basis::kF32) {
  Router rule;
  rule.scoring = scoring;
  rule.order = order;
  rule.renormalize = renormalize;
  rule.input = input;
  rule.scale = 2.5f;
  if (renormalize == Renormalize::kSumPlus) rule.guard = 1e-20f;
  if (renormalize == Renormalize::kSumFloor) rule.guard = 0.75f;
  if (scoring == Scoring::kSparsemixer) rule.epsilon = 0.05f;
  return rule;
}

// Coarse numbers, so that experts tie.
std::vector<float> Coarse(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 9) - 4) / 4;
  return values;
}

// A layer's inputs, its logits as the product kernel gives them, and what is written.
class Routed {
 public:
  explicit Routed(const Layer& layer)
      : layer_(layer),
        x_(Coarse(size_t{layer.tokens} * kHidden, 1)),
        weight_(Coarse(size_t{layer.experts} * kHidden, 2)),
        bias_(layer.has_bias ? Coarse(layer.experts, 3) : std::vector<float>()),
        selection_bias_(layer.has_selection_bias ? Coarse(layer.experts, 4) : std::vector<float>()) {}

  std::vector<float>& x() { return x_; }
  std::vector<float>& bias() { return bias_; }
  std::vector<float>& selection_bias() { return selection_bias_; }

  // The reference's status; its result is expected afterwards.
  absl::Status RunReference() {
    const runtime::StepShape shape = runtime::Shape(layer_.tokens, layer_.top_k, kHidden);
    const runtime::WeightMatrix none;
    const runtime::WeightMatrix weight = runtime::Matrix(weight_, layer_.experts);
    const runtime::WeightMatrix bias = bias_.empty() ? none : runtime::Matrix(bias_, 1);
    expected_experts_.assign(shape.slots(), 0);
    expected_weights_.assign(shape.slots(), 0);
    if (!table_.empty()) {
      runtime::WeightMatrix table;
      table.dtype = DType::kI64;
      table.rows = static_cast<uint32_t>(table_.size() / layer_.top_k);
      table.columns = layer_.top_k;
      table.row_bytes = layer_.top_k * sizeof(int64_t);
      table.data = reinterpret_cast<const std::byte*>(table_.data());
      return steps_.RouteByTable({shape, layer_.rule, weight, bias, table, x_, token_ids_,
                                  absl::MakeSpan(expected_experts_), absl::MakeSpan(expected_weights_)});
    }
    const runtime::WeightMatrix selection = selection_bias_.empty() ? none : runtime::Matrix(selection_bias_, 1);
    return steps_.Route({shape, layer_.rule, weight, bias, selection, x_, absl::MakeSpan(expected_experts_),
                         absl::MakeSpan(expected_weights_)});
  }

  cudaError_t RunKernel() {
    tokens_ = Tokens(layer_.tokens, 100);
    std::vector<float> logits(size_t{layer_.tokens} * layer_.experts);
    const runtime::WeightMatrix weight = runtime::Matrix(weight_, layer_.experts);
    for (uint32_t token = 0; token < layer_.tokens; ++token) {
      runtime::Multiply(weight,
                        runtime::ToBasis(layer_.rule.input, runtime::RowOf(absl::MakeConstSpan(x_), token, kHidden)),
                        runtime::RowOf(absl::MakeSpan(logits), token, layer_.experts));
      const absl::Span<float> row = runtime::RowOf(absl::MakeSpan(logits), token, layer_.experts);
      for (size_t expert = 0; expert < bias_.size(); ++expert) row[expert] += bias_[expert];
      runtime::ToBasis(layer_.rule.input, row);
    }
    RouteStep step;
    step.grid.step = &tokens_;
    step.grid.max_tokens = layer_.max_tokens;
    step.grid.top_k = layer_.top_k;
    step.rule = layer_.rule;
    step.experts = layer_.experts;
    step.logits = logits.data();
    const runtime::WeightMatrix selection =
        selection_bias_.empty() ? runtime::WeightMatrix() : runtime::Matrix(selection_bias_, 1);
    step.selection_bias = OnDevice(selection, selection.data, selection.data);
    const size_t slots = step.grid.max_slots();
    experts_ = Unwritten<int32_t>(slots);
    weights_ = Unwritten<float>(slots);
    computed_ = Unwritten<uint32_t>(slots);
    failures_ = Unwritten<uint64_t>(layer_.max_tokens);
    step.out = {experts_.data(), weights_.data(), computed_.data(), failures_.data()};
    if (table_.empty()) return LaunchRoute(nullptr, step);
    TokenTable table;
    table.entries = table_.data();
    table.wide = true;
    table.rows = static_cast<uint32_t>(table_.size() / layer_.top_k);
    table.row_bytes = layer_.top_k * sizeof(int64_t);
    table.token_ids = token_ids_.data();
    return LaunchRouteByTable(nullptr, step, table);
  }

  // Everything that the kernel wrote, and nothing else.
  void ExpectReference() const {
    const size_t slots = size_t{layer_.tokens} * layer_.top_k;
    EXPECT_EQ(std::vector<int32_t>(experts_.begin(), experts_.begin() + static_cast<std::ptrdiff_t>(slots)),
              expected_experts_);
    EXPECT_TRUE(SameBits({weights_.begin(), weights_.begin() + static_cast<std::ptrdiff_t>(slots)}, expected_weights_));
    for (size_t slot = 0; slot < experts_.size(); ++slot) {
      EXPECT_EQ(computed_[slot], slot < slots ? 0 : 0xFFFFFFFFu);
      if (slot >= slots) {
        EXPECT_EQ(experts_[slot], -1);
      }
    }
    for (uint32_t token = 0; token < layer_.max_tokens; ++token) {
      EXPECT_EQ(failures_[token], token < layer_.tokens ? 0 : ~uint64_t{0});
    }
  }

  void SetTable(std::vector<int64_t> table, std::vector<int32_t> token_ids) {
    table_ = std::move(table);
    token_ids_ = std::move(token_ids);
  }

  const std::vector<uint64_t>& failures() const { return failures_; }
  const std::vector<int32_t>& experts() const { return experts_; }
  const std::vector<float>& weights() const { return weights_; }

 private:
  Layer layer_;
  std::vector<float> x_;
  std::vector<float> weight_;
  std::vector<float> bias_;
  std::vector<float> selection_bias_;
  std::vector<int64_t> table_;
  std::vector<int32_t> token_ids_;
  StepTokens tokens_;
  runtime::SingleSteps steps_;
  std::vector<int32_t> expected_experts_;
  std::vector<float> expected_weights_;
  std::vector<int32_t> experts_;
  std::vector<float> weights_;
  std::vector<uint32_t> computed_;
  std::vector<uint64_t> failures_;
};

void ExpectLikeReference(const Layer& layer) {
  SCOPED_TRACE(absl::StrCat(WordOf(layer.rule.scoring), " ", WordOf(layer.rule.order), " ",
                            WordOf(layer.rule.renormalize), " ", WordOf(layer.rule.input), " E ", layer.experts, " k ",
                            layer.top_k, " T ", layer.tokens, " groups ", layer.rule.groups.count));
  Routed routed(layer);
  ASSERT_TRUE(routed.RunReference().ok());
  UnderEverySchedule([&] { return routed.RunKernel(); });
  routed.ExpectReference();
}

constexpr Renormalize kRenormalize[] = {Renormalize::kNone, Renormalize::kSum, Renormalize::kSumPlus,
                                        Renormalize::kSumFloor};
constexpr RouteOrder kOrders[] = {RouteOrder::kScoreThenTopK, RouteOrder::kTopKThenScore};

TEST(RouteKernelTest, EveryScoringOrderAndRenormalisation) {
  uint32_t number = 0;
  for (const Scoring scoring : {Scoring::kSoftmax, Scoring::kSigmoid, Scoring::kSqrtSoftplus, Scoring::kSparsemixer}) {
    for (const RouteOrder order : kOrders) {
      for (const Renormalize renormalize : kRenormalize) {
        ++number;
        const Basis basis = number % 3 == 0 ? Basis::kBf16 : Basis::kF32;
        ExpectLikeReference({3, 5, 8, 60, Rule(scoring, order, renormalize, basis), number % 2 == 0,
                             number % 4 < 2 && scoring != Scoring::kSparsemixer});
      }
    }
  }
}

// Counts of experts that are no powers of two, and less than a warp has lanes; k of 1 and more than a warp's lanes.
TEST(RouteKernelTest, EveryShape) {
  const Router rule = Rule(Scoring::kSoftmax, RouteOrder::kScoreThenTopK, Renormalize::kSum);
  for (const uint32_t experts : {1u, 3u, 32u, 60u, 72u, 160u, 384u}) {
    for (const uint32_t tokens : {0u, 1u, 3u}) {
      ExpectLikeReference({tokens, 3, experts < 8 ? 1u : 8u, experts, rule, false, false});
    }
    ExpectLikeReference({1, 2, 1, experts, rule, false, false});
  }
  ExpectLikeReference({1, 1, 40, 72, rule, false, false});
}

TEST(RouteKernelTest, GroupsByBestAndByTheTopTwo) {
  for (const GroupScore score : {GroupScore::kMax, GroupScore::kTop2Sum}) {
    for (const RouteOrder order : kOrders) {
      Router rule = Rule(Scoring::kSigmoid, order, Renormalize::kSumPlus);
      rule.groups = {8, 4, score};
      ExpectLikeReference({2, 3, 8, 160, rule, false, true});
      rule.groups = {40, 3, score};  // more groups than a warp has lanes
      ExpectLikeReference({2, 2, 8, 160, rule, false, true});
    }
  }
}

TEST(RouteKernelTest, EveryBasisOfTheRoutersInput) {
  for (const Basis basis : {Basis::kF32, Basis::kBf16, Basis::kF16, Basis::kQ8}) {
    ExpectLikeReference(
        {4, 4, 4, 72, Rule(Scoring::kSoftmax, RouteOrder::kTopKThenScore, Renormalize::kNone, basis), true, false});
  }
}

TEST(RouteKernelTest, AScoreThatIsNotFiniteIsNamed) {
  const Layer layer = {3,     4,    2, 60, Rule(Scoring::kSoftmax, RouteOrder::kScoreThenTopK, Renormalize::kSum),
                       false, false};
  Routed routed(layer);
  routed.x()[kHidden] = std::numeric_limits<float>::infinity();  // of token 1
  const absl::Status refused = routed.RunReference();
  UnderEverySchedule([&] { return routed.RunKernel(); });
  const uint64_t word = routed.failures()[1];
  EXPECT_EQ(FailureKindOf(word), FailureKind::kRouterScore);
  EXPECT_EQ(FailureDetail(word), 1u);
  EXPECT_EQ(refused.message(),
            absl::StrCat("token 1: the router score of expert ", FailedExpert(word), " is not finite"));
  EXPECT_EQ(routed.failures()[0], 0u);
  EXPECT_EQ(routed.failures()[2], 0u);
  EXPECT_EQ(routed.experts()[2], 0);  // what is safe to read by
  EXPECT_EQ(routed.experts()[3], 1);
  EXPECT_EQ(routed.weights()[2], 0);
}

// So is one that its selection bias makes that; of the first token already, since all have the same biases.
TEST(RouteKernelTest, ABiasedScoreThatIsNotFiniteIsNamed) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const RouteOrder order : kOrders) {
    for (const float bias : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity}) {
      for (const uint32_t groups : {0u, 6u}) {
        Router rule = Rule(Scoring::kSigmoid, order, Renormalize::kSum);
        if (groups > 0) rule.groups = {groups, 2, GroupScore::kTop2Sum};
        Routed routed({2, 3, 4, 60, rule, false, true});
        routed.selection_bias()[41] = routed.selection_bias()[52] = bias;
        const absl::Status refused = routed.RunReference();
        EXPECT_EQ(refused.message(), "token 0: the router score of expert 41 is not finite");
        UnderEverySchedule([&] { return routed.RunKernel(); });
        EXPECT_EQ(routed.failures()[0], FailureWord(FailureKind::kRouterScore, 41, 0));
        EXPECT_EQ(routed.failures()[1], FailureWord(FailureKind::kRouterScore, 41, 1));
      }
    }
  }
  // Sparsemixer compares logits alone.
  Routed routed(
      {2, 3, 4, 60, Rule(Scoring::kSparsemixer, RouteOrder::kScoreThenTopK, Renormalize::kNone), false, true});
  routed.selection_bias()[41] = kInfinity;
  EXPECT_TRUE(routed.RunReference().ok());
  UnderEverySchedule([&] { return routed.RunKernel(); });
  routed.ExpectReference();
}

// Scores that are all nothing weigh nothing over nothing. What comes of such a weight is refused, not the weight.
TEST(RouteKernelTest, AWeightMayBeNoNumber) {
  Routed routed({2, 2, 2, 8, Rule(Scoring::kSigmoid, RouteOrder::kScoreThenTopK, Renormalize::kSum), true, false});
  for (float& bias : routed.bias()) bias = -1e6f;
  ASSERT_TRUE(routed.RunReference().ok());
  UnderEverySchedule([&] { return routed.RunKernel(); });
  routed.ExpectReference();
  EXPECT_NE(routed.weights()[0], routed.weights()[0]);
}

TEST(RouteKernelTest, ALayerWithoutRoomIsRefused) {
  const Router rule = Rule(Scoring::kSoftmax, RouteOrder::kScoreThenTopK, Renormalize::kSum);
  EXPECT_EQ(Routed({1, 1, 8, 4096, rule, false, false}).RunKernel(), cudaSuccess);
  EXPECT_EQ(Routed({1, 1, 8, 8192, rule, false, false}).RunKernel(), cudaErrorInvalidValue);
  EXPECT_EQ(Routed({1, 1, 0, 8, rule, false, false}).RunKernel(), cudaErrorInvalidValue);
}

TEST(RouteByTableKernelTest, TakesTheRowsOrder) {
  for (const Scoring scoring : {Scoring::kSoftmax, Scoring::kSigmoid, Scoring::kSqrtSoftplus}) {
    for (const RouteOrder order : kOrders) {
      Routed routed({4, 6, 3, 60, Rule(scoring, order, Renormalize::kSum), true, false});
      routed.SetTable({5, 2, 59, 0, 1, 2, 30, 31, 29}, {2, 0, 0, 1});
      ASSERT_TRUE(routed.RunReference().ok());
      UnderEverySchedule([&] { return routed.RunKernel(); });
      routed.ExpectReference();
    }
  }
}

TEST(RouteByTableKernelTest, RowsAndIdsAreNotBelieved) {
  const Layer layer = {3,     3,    2, 8, Rule(Scoring::kSigmoid, RouteOrder::kScoreThenTopK, Renormalize::kNone),
                       false, false};
  struct Bad {
    std::vector<int64_t> row;
    int32_t id;
    uint64_t word;
  };
  const auto bad_row = FailureWord(FailureKind::kTokenTableRow, 0, 1);
  for (const Bad& bad :
       {Bad{{3, 3}, 1, bad_row}, Bad{{3, 8}, 1, bad_row}, Bad{{-1, 3}, 1, bad_row},
        Bad{{int64_t{1} << 32, 3}, 1, bad_row}, Bad{{3, 4}, 2, FailureWord(FailureKind::kTokenId, 0, 2)},
        Bad{{3, 4}, -1, FailureWord(FailureKind::kTokenId, 0, 0xFFFFFFFFu)}}) {
    Routed routed(layer);
    routed.SetTable({0, 7, bad.row[0], bad.row[1]}, {0, bad.id, 0});
    EXPECT_FALSE(routed.RunReference().ok());
    UnderEverySchedule([&] { return routed.RunKernel(); });
    EXPECT_EQ(routed.failures(), (std::vector<uint64_t>{0, bad.word, 0}));
  }
}

TEST(RouteGivenKernelTest, CopiesTheCallersRouting) {
  const uint32_t max_tokens = 90;
  for (const uint32_t tokens : {0u, 1u, 77u}) {
    const std::vector<int32_t> given = RandomExperts(tokens, 2, 9, 1);
    const std::vector<float> given_weights = Numbers(given.size(), 2);
    StepTokens step = Tokens(tokens);
    StepGrid grid;
    grid.step = &step;
    grid.max_tokens = max_tokens;
    grid.top_k = 2;
    UnderEverySchedule([&] {
      std::vector<int32_t> experts = Unwritten<int32_t>(grid.max_slots());
      std::vector<float> weights = Unwritten<float>(grid.max_slots());
      std::vector<uint32_t> computed = Unwritten<uint32_t>(grid.max_slots());
      std::vector<uint64_t> failures = Unwritten<uint64_t>(max_tokens);
      const cudaError_t status = LaunchRouteGiven(nullptr, grid, given.data(), given_weights.data(),
                                                  {experts.data(), weights.data(), computed.data(), failures.data()});
      experts.resize(given.size());
      weights.resize(given.size());
      EXPECT_EQ(experts, given);
      EXPECT_TRUE(SameBits(weights, given_weights));
      for (size_t slot = 0; slot < computed.size(); ++slot) EXPECT_EQ(computed[slot] == 0, slot < given.size());
      for (size_t token = 0; token < max_tokens; ++token) EXPECT_EQ(failures[token] == 0, token < tokens);
      return status;
    });
  }
}

}  // namespace
}  // namespace meshseal::cuda
