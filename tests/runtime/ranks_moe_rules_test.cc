// Layers of other rules than softmax and SwiGLU, on several worlds: each gives what plain arithmetic over the whole
// model gives. The selection itself is checked against every family's code in router_rule_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/reference/router_rule.h"
#include "runtime/session/session.h"
#include "schema/tensor_name.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/plan_builder.h"

namespace meshseal::runtime {
namespace {

using support::Checkpoint;
using support::PlanNumbers;

constexpr uint32_t kTokens = 13;

struct Rule {
  std::string name;
  std::function<void(PlanNumbers&)> set;
};

std::vector<Rule> Rules() {
  return {
      {"DeepSeek-V3",
       [](PlanNumbers& n) {
         n.router.scoring = Scoring::kSigmoid;
         n.router.renormalize = Renormalize::kSumPlus;
         n.router.guard = 1e-20f;
         n.router.scale = 2.5f;
         n.router.groups = {4, 2, GroupScore::kTop2Sum};
         n.selection_bias = true;
       }},
      {"DeepSeek-V2",
       [](PlanNumbers& n) {
         n.router.renormalize = Renormalize::kNone;
         n.router.scale = 16;
         n.router.groups = {4, 2, GroupScore::kMax};
       }},
      {"MiniMax-M2",
       [](PlanNumbers& n) {
         n.router.scoring = Scoring::kSigmoid;
         n.selection_bias = true;
       }},
      {"gpt-oss",
       [](PlanNumbers& n) {
         n.router.order = RouteOrder::kTopKThenScore;
         n.router.renormalize = Renormalize::kNone;
         n.router_bias = true;
         n.activation = {ActivationKind::kSwiGluOai, 1.702f, 0.25f};
       }},
      {"DeepSeek-V4",
       [](PlanNumbers& n) {
         n.router.scoring = Scoring::kSqrtSoftplus;
         n.router.scale = 1.5f;
         n.selection_bias = true;
         n.activation = {ActivationKind::kSwiGluPreclamp, 0, 0.25f};
       }},
      {"Phi-3.5",
       [](PlanNumbers& n) {
         n.router.scoring = Scoring::kSparsemixer;
         n.router.epsilon = 0.01f;
         n.router.renormalize = Renormalize::kNone;
       }},
  };
}

// One layer over the whole model, in float64.
class WholeModel {
 public:
  WholeModel(const Plan& plan, Checkpoint& checkpoint) : plan_(plan), checkpoint_(checkpoint) {}

  std::vector<double> Layer(const std::vector<float>& hidden) {
    const LayerClass& c = plan_.layer_classes[0];
    std::vector<double> out(hidden.size());
    for (size_t token = 0; token < hidden.size() / plan_.hidden; ++token) {
      const std::vector<double> x(hidden.begin() + static_cast<std::ptrdiff_t>(token * plan_.hidden),
                                  hidden.begin() + static_cast<std::ptrdiff_t>((token + 1) * plan_.hidden));
      std::vector<float> logits;
      for (const double logit : Times(TensorRole::kRouter, 0, x)) logits.push_back(static_cast<float>(logit));
      const std::vector<float> bias = ValuesOf(TensorRole::kRouterBias, 0);
      for (size_t i = 0; i < bias.size(); ++i) logits[i] += bias[i];
      const Selection selection = SelectExperts(c.router, logits, ValuesOf(TensorRole::kSelectionBias, 0), c.top_k);
      for (size_t j = 0; j < selection.experts.size(); ++j) {
        const auto expert = static_cast<uint32_t>(selection.experts[j]);
        const std::vector<double> gate = Times(TensorRole::kGate, expert, x);
        const std::vector<double> up = Times(TensorRole::kUp, expert, x);
        std::vector<double> activated;
        for (size_t i = 0; i < gate.size(); ++i) activated.push_back(Activate(c.activation, gate[i], up[i]));
        const std::vector<double> down = Times(TensorRole::kDown, expert, activated);
        for (size_t i = 0; i < down.size(); ++i) {
          out[token * plan_.hidden + i] += static_cast<double>(selection.weights[j]) * down[i];
        }
      }
    }
    return out;
  }

 private:
  static double Activate(const Activation& rule, double gate, double up) {
    const auto limit = static_cast<double>(rule.limit);
    if (rule.kind != ActivationKind::kSwiGlu) {
      gate = gate > limit ? limit : gate;
      up = up > limit ? limit : up < -limit ? -limit : up;
    }
    const double alpha = rule.kind == ActivationKind::kSwiGluOai ? static_cast<double>(rule.alpha) : 1;
    const double one_more = rule.kind == ActivationKind::kSwiGluOai ? 1 : 0;
    return gate / (1 + std::exp(-alpha * gate)) * (up + one_more);
  }

  std::vector<float> ValuesOf(TensorRole role, uint32_t expert) {
    for (const TensorClass& tensor : plan_.layer_classes[0].tensors) {
      if (tensor.role == role) return support::Tensor(checkpoint_, TensorName(tensor.name, 0, expert)).values;
    }
    return {};
  }

  std::vector<double> Times(TensorRole role, uint32_t expert, const std::vector<double>& x) {
    const std::vector<float> matrix = ValuesOf(role, expert);
    std::vector<double> product(matrix.size() / x.size());
    for (size_t i = 0; i < matrix.size(); ++i)
      product[i / x.size()] += static_cast<double>(matrix[i]) * x[i % x.size()];
    return product;
  }

  const Plan& plan_;
  Checkpoint& checkpoint_;
};

TEST(MoeRules, EveryWorldGivesWhatTheWholeModelGives) {
  const support::TempFolder folder;
  for (const Rule& rule : Rules()) {
    for (const auto& [tp, ep] : std::vector<std::pair<uint32_t, uint32_t>>{{1, 1}, {1, 2}, {1, 4}, {2, 1}, {2, 3}}) {
      PlanNumbers n;
      n.tp = tp;
      n.ep = ep;
      rule.set(n);
      SealedPlan plan = support::BuildSealedPlan(n);
      Checkpoint checkpoint = support::RandomCheckpoint(plan.plan(), 5);
      const std::vector<float> hidden = support::RandomValues(size_t{kTokens} * n.hidden, 9);
      const std::vector<double> expected = WholeModel(plan.plan(), checkpoint).Layer(hidden);
      double largest = 0;
      for (const double value : expected) largest = std::max(largest, std::abs(value));
      ASSERT_GT(largest, 0);

      SessionOptions options;
      options.weights = {support::WriteCheckpoint(folder.path() / rule.name, checkpoint)};
      options.unverified_weights = true;
      options.deadline = std::chrono::milliseconds(20'000);
      absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(std::move(plan), options);
      ASSERT_TRUE(session.ok()) << rule.name << ": " << session.status();
      for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
        std::vector<float> output(hidden.size());
        RunResult result;
        const absl::Status ran = (*session)->Run({0, phase, kTokens, hidden, absl::MakeSpan(output)}, &result);
        ASSERT_TRUE(ran.ok()) << rule.name << ": " << ran;
        double worst = 0;
        for (size_t i = 0; i < output.size(); ++i) {
          worst = std::max(worst, std::abs(static_cast<double>(output[i]) - expected[i]) / largest);
        }
        EXPECT_LE(worst, 2e-6) << rule.name << " tp " << tp << " ep " << ep << " " << WordOf(phase);
      }
    }
  }
}

}  // namespace
}  // namespace meshseal::runtime
