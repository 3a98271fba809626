// Layers of every rule that a plan can say, on several worlds: each gives what plain arithmetic over the whole model
// gives. The selection itself is checked against every family's code in router_rule_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/reference/router_rule.h"
#include "runtime/session/session.h"
#include "schema/tensor_name.h"
#include "tests/runtime/oracle.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/plan_builder.h"

namespace meshseal::runtime {
namespace {

using support::Checkpoint;
using support::PlanNumbers;

constexpr uint32_t kTokens = 13;
constexpr uint32_t kVocabulary = 5;

struct Rule {
  std::string name;
  std::function<void(PlanNumbers&)> set;  // of numbers that have their tp and ep
};

void SetDeepSeekV4(PlanNumbers& n) {
  n.router.scoring = Scoring::kSqrtSoftplus;
  n.router.scale = 1.5f;
  n.activation = {ActivationKind::kSwiGluPreclamp, 0, 0.25f};
  n.shared_width = 7;
}

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
         n.shared_width = 10;
       }},
      {"DeepSeek-V2",
       [](PlanNumbers& n) {
         n.router.renormalize = Renormalize::kNone;
         n.router.scale = 16;
         n.router.groups = {4, 2, GroupScore::kMax};
         n.shared_width = 24;
         n.shared_placement = SharedPlacement::kOwner;  // ranks beyond ep 0 have nothing of it
       }},
      {"Qwen2-MoE",
       [](PlanNumbers& n) {
         n.router.renormalize = Renormalize::kNone;
         n.shared_width = 10;
         n.shared_gate = SharedGate::kSigmoid;
       }},
      {"Qwen2-MoE owner",
       [](PlanNumbers& n) {
         n.shared_width = 9;
         n.shared_gate = SharedGate::kSigmoid;
         n.shared_placement = SharedPlacement::kOwner;
         n.residual = Residual::kAdd;
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
         n.biases = true;
         n.activation = {ActivationKind::kSwiGluOai, 1.702f, 0.25f};
       }},
      {"DeepSeek-V4",
       [](PlanNumbers& n) {
         SetDeepSeekV4(n);
         n.selection_bias = true;
       }},
      {"DeepSeek-V4 by token id",
       [](PlanNumbers& n) {
         SetDeepSeekV4(n);
         n.router.vocabulary = kVocabulary;
         n.router.weight_applied = WeightPoint::kActivation;
       }},
      {"Phi-3.5",
       [](PlanNumbers& n) {
         n.router.scoring = Scoring::kSparsemixer;
         n.router.epsilon = 0.01f;
         n.router.renormalize = Renormalize::kNone;
       }},
      {"Llama 4",
       [](PlanNumbers& n) {
         n.top_k = 1;
         n.router.scoring = Scoring::kSigmoid;
         n.router.order = RouteOrder::kTopKThenScore;
         n.router.renormalize = Renormalize::kNone;
         n.router.weight_applied = WeightPoint::kInput;
         n.gate_up_basis = Basis::kBf16;
         n.shared_width = 12;
       }},
      {"Grok-1",
       [](PlanNumbers& n) {
         n.activation = {ActivationKind::kGeGlu, 0, 0};
       }},
      {"relu2",
       [](PlanNumbers& n) {
         n.activation = {ActivationKind::kRelu2, 0, 0};
         n.biases = true;
         n.shared_width = 11;
       }},
      {"a routing by the caller",
       [](PlanNumbers& n) {
         n.router.scoring = Scoring::kPrecomputed;
         n.router.renormalize = Renormalize::kNone;
       }},
      {"copies",
       [](PlanNumbers& n) {
         n.copies = n.ep == 1 ? 0 : n.ep == 2 ? 5 : 11;  // 11: some experts on three ranks
         n.biases = true;
       }},
      {"f16",
       [](PlanNumbers& n) {
         n.gate_up_basis = n.down_basis = Basis::kF16;
         n.shared_width = 7;
       }},
      {"f16 output", [](PlanNumbers& n) { n.output = Basis::kF16; }},
      {"q8",
       [](PlanNumbers& n) {
         n.gate_up_basis = n.down_basis = Basis::kQ8;
         n.hidden = 64;
         n.intermediate = 96;
         n.column_unit = 32;
         n.shared_width = 80;  // the last block of a row is short
         n.shared_placement = SharedPlacement::kOwner;
       }},
  };
}

// What a caller brings to every layer that reads it.
struct CallerInputs {
  std::vector<int32_t> token_ids;
  std::vector<int32_t> experts;
  std::vector<float> weights;
};

CallerInputs InputsFor(const PlanNumbers& n) {
  CallerInputs inputs;
  const std::vector<float> values = support::RandomValues(size_t{kTokens} * n.top_k, 21);
  for (uint32_t token = 0; token < kTokens; ++token) {
    if (n.router.vocabulary > 0) inputs.token_ids.push_back(static_cast<int32_t>(2 * token % n.router.vocabulary));
    if (n.router.scoring != Scoring::kPrecomputed) continue;
    for (uint32_t j = 0; j < n.top_k; ++j) {
      inputs.experts.push_back(static_cast<int32_t>((3 * token + j) % n.experts));
      inputs.weights.push_back(values[inputs.weights.size()]);
    }
  }
  return inputs;
}

double ToF16(double value) {
  const double smallest = 0x1p-14;
  if (std::abs(value) < smallest) return std::ldexp(std::nearbyint(std::ldexp(value, 24)), -24);
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(fraction * 2048), exponent - 11);
}

// One layer over the whole model. Sums and functions are float64; what is rounded to a basis is a float32 before, as it
// decides which way it goes.
class WholeModel {
 public:
  WholeModel(const Plan& plan, Checkpoint& checkpoint, const CallerInputs& inputs)
      : plan_(plan), class_(plan.layer_classes[0]), checkpoint_(checkpoint), inputs_(inputs) {}

  std::vector<double> Layer(const std::vector<float>& hidden) {
    std::vector<double> out;
    selected.clear();
    for (size_t token = 0; token < hidden.size() / plan_.hidden; ++token) {
      const std::vector<double> x(hidden.begin() + static_cast<std::ptrdiff_t>(token * plan_.hidden),
                                  hidden.begin() + static_cast<std::ptrdiff_t>((token + 1) * plan_.hidden));
      std::vector<double> sum(plan_.hidden);
      const Selection selection = Select(token, x);
      for (size_t j = 0; j < selection.experts.size(); ++j) {
        selected.push_back(selection.experts[j]);
        const std::vector<double> y = Expert(static_cast<uint32_t>(selection.experts[j]), x, selection.weights[j]);
        for (size_t i = 0; i < y.size(); ++i) sum[i] += y[i];
      }
      const std::vector<double> shared = Shared(x);
      for (size_t i = 0; i < shared.size(); ++i) sum[i] += shared[i];
      for (size_t i = 0; i < sum.size(); ++i) out.push_back(sum[i] + (class_.residual == Residual::kAdd ? x[i] : 0));
    }
    return out;
  }

  std::vector<int32_t> selected;  // by the last Layer

 private:
  Selection Select(size_t token, const std::vector<double>& x) {
    const auto first = static_cast<std::ptrdiff_t>(token * class_.top_k);
    if (class_.router.scoring == Scoring::kPrecomputed) {
      return {{inputs_.experts.begin() + first, inputs_.experts.begin() + first + class_.top_k},
              {inputs_.weights.begin() + first, inputs_.weights.begin() + first + class_.top_k}};
    }
    std::vector<float> logits;
    for (const double logit : Times(TensorRole::kRouter, 0, x)) logits.push_back(static_cast<float>(logit));
    const std::vector<float> bias = ValuesOf(TensorRole::kRouterBias, 0);
    for (size_t i = 0; i < bias.size(); ++i) logits[i] += bias[i];
    if (class_.router.vocabulary == 0) {
      return SelectExperts(class_.router, logits, ValuesOf(TensorRole::kSelectionBias, 0), class_.top_k);
    }
    const std::vector<float> table = ValuesOf(TensorRole::kTokenTable, 0);
    std::vector<int32_t> row;
    for (uint32_t j = 0; j < class_.top_k; ++j) {
      row.push_back(static_cast<int32_t>(table[static_cast<size_t>(inputs_.token_ids[token]) * class_.top_k + j]));
    }
    return WeighExperts(class_.router, logits, row);
  }

  std::vector<double> Expert(uint32_t expert, std::vector<double> x, float weight) {
    const auto weigh = [&](WeightPoint point, std::vector<double>& values) {
      if (class_.router.weight_applied != point) return;
      for (double& value : values) value *= static_cast<double>(weight);
    };
    weigh(WeightPoint::kInput, x);
    Round(class_.gate_up_basis, x);
    const std::vector<double> gate = Affine(TensorRole::kGate, TensorRole::kGateBias, expert, x);
    std::vector<double> activated = Affine(TensorRole::kUp, TensorRole::kUpBias, expert, x);
    for (size_t i = 0; i < activated.size(); ++i) {
      activated[i] = Activate(class_.activation, gate.empty() ? 0 : gate[i], activated[i]);
    }
    weigh(WeightPoint::kActivation, activated);
    Round(class_.down_basis, activated);
    std::vector<double> y = Affine(TensorRole::kDown, TensorRole::kDownBias, expert, activated);
    weigh(WeightPoint::kOutput, y);
    return y;
  }

  // Nothing where there is none.
  std::vector<double> Shared(const std::vector<double>& x) {
    if (class_.shared_expert.width == 0) return {};
    std::vector<double> rounded = x;
    Round(class_.gate_up_basis, rounded);
    const std::vector<double> gate = Times(TensorRole::kSharedGate, 0, rounded);
    std::vector<double> activated = Times(TensorRole::kSharedUp, 0, rounded);
    for (size_t i = 0; i < activated.size(); ++i) {
      const double up = static_cast<double>(static_cast<float>(activated[i]));
      const double gated = gate.empty() ? 0 : static_cast<double>(static_cast<float>(gate[i]));
      activated[i] = Activate(class_.shared_expert.activation, gated, up);
    }
    Round(class_.down_basis, activated);
    std::vector<double> y = Times(TensorRole::kSharedDown, 0, activated);
    if (class_.shared_expert.gate == SharedGate::kSigmoid) {
      const double share = 1 / (1 + std::exp(-Times(TensorRole::kSharedExpertGate, 0, x).front()));
      for (double& value : y) value *= share;
    }
    return y;
  }

  static double Activate(const Activation& rule, double gate, double up) {
    if (rule.kind == ActivationKind::kRelu2) return up > 0 ? up * up : 0;
    if (rule.kind == ActivationKind::kGeGlu) {
      const double pi = 3.14159265358979323846;
      return gate / 2 * (1 + std::tanh(std::sqrt(2 / pi) * (gate + 0.044715 * std::pow(gate, 3)))) * up;
    }
    const auto limit = static_cast<double>(rule.limit);
    if (rule.kind != ActivationKind::kSwiGlu) {
      gate = gate > limit ? limit : gate;
      up = up > limit ? limit : up < -limit ? -limit : up;
    }
    const double alpha = rule.kind == ActivationKind::kSwiGluOai ? static_cast<double>(rule.alpha) : 1;
    const double one_more = rule.kind == ActivationKind::kSwiGluOai ? 1 : 0;
    return gate / (1 + std::exp(-alpha * gate)) * (up + one_more);
  }

  static void Round(Basis basis, std::vector<double>& row) {
    if (basis == Basis::kF32) return;
    for (double& value : row) value = static_cast<double>(static_cast<float>(value));
    for (size_t first = 0; basis == Basis::kQ8 && first < row.size(); first += 32) {
      const size_t last = std::min(first + 32, row.size());
      float largest = 0;
      for (size_t i = first; i < last; ++i) largest = std::max(largest, std::abs(static_cast<float>(row[i])));
      const float step = largest / 127;
      const double stored = ToF16(static_cast<double>(step));
      for (size_t i = first; i < last; ++i) {
        row[i] = static_cast<double>(std::round(static_cast<float>(row[i]) * (1 / step))) * stored;
      }
    }
    for (double& value : row) {
      if (basis == Basis::kBf16) value = support::OracleBf16(value);
      if (basis == Basis::kF16) value = ToF16(value);
    }
  }

  // A product that is a float32, plus a bias where there is one.
  std::vector<double> Affine(TensorRole matrix, TensorRole bias, uint32_t expert, const std::vector<double>& x) {
    std::vector<double> product = Times(matrix, expert, x);
    const std::vector<float> added = ValuesOf(bias, expert);
    for (size_t i = 0; i < product.size(); ++i) {
      const float sum = static_cast<float>(product[i]) + (added.empty() ? 0.0f : added[i]);
      product[i] = static_cast<double>(sum);
    }
    return product;
  }

  std::vector<float> ValuesOf(TensorRole role, uint32_t expert) {
    for (const TensorClass& tensor : class_.tensors) {
      if (tensor.role == role) return support::Tensor(checkpoint_, TensorName(tensor.name, 0, expert)).values;
    }
    return {};
  }

  std::vector<double> Times(TensorRole role, uint32_t expert, const std::vector<double>& x) {
    const std::vector<float> matrix = ValuesOf(role, expert);
    std::vector<double> product(matrix.size() / x.size());
    for (size_t i = 0; i < matrix.size(); ++i) {
      product[i / x.size()] += static_cast<double>(matrix[i]) * x[i % x.size()];
    }
    return product;
  }

  const Plan& plan_;
  const LayerClass& class_;
  Checkpoint& checkpoint_;
  const CallerInputs& inputs_;
};

struct World {
  uint32_t tp, ep;
};

// Runs the first `tokens` tokens and compares them with `expected`, in units of its largest magnitude.
void CheckRun(Session& session, const PlanNumbers& n, Phase phase, uint32_t tokens, const std::vector<float>& hidden,
              const CallerInputs& inputs, const std::vector<double>& expected, const std::vector<int32_t>& selected) {
  const auto first = [&](const auto& values, size_t width) {
    return absl::MakeConstSpan(values).first(values.empty() ? 0 : tokens * width);
  };
  std::vector<float> output(size_t{tokens} * n.hidden);
  RunRequest request = {0, phase, tokens, first(hidden, n.hidden), absl::MakeSpan(output)};
  request.token_ids = first(inputs.token_ids, 1);
  request.routing = {first(inputs.experts, n.top_k), first(inputs.weights, n.top_k)};
  RunResult result;
  const absl::Status ran = session.Run(request, &result);
  ASSERT_TRUE(ran.ok()) << ran;
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  ASSERT_GT(largest, 0);
  double worst = 0;
  for (size_t i = 0; i < output.size(); ++i) {
    const double difference = std::abs(static_cast<double>(output[i]) - expected[i]) / largest;
    worst = difference <= worst ? worst : difference;  // a NaN is the worst
    if (n.output == Basis::kF16) {
      EXPECT_EQ(ToF16(static_cast<double>(output[i])), static_cast<double>(output[i]));
    }
  }
  EXPECT_LE(worst, n.output == Basis::kF16 ? 0x1p-11 : 2e-6);
  EXPECT_EQ(absl::MakeConstSpan(result.expert_ids), first(selected, n.top_k));
  uint64_t slots = 0;
  for (const RankReport& report : result.ranks) slots += report.counters.down_slots;
  EXPECT_EQ(slots, uint64_t{tokens} * n.top_k * n.tp);
}

TEST(MoeRules, EveryWorldGivesWhatTheWholeModelGives) {
  const support::TempFolder folder;
  for (const Rule& rule : Rules()) {
    for (const auto& [tp, ep] : std::vector<World>{{1, 1}, {1, 2}, {1, 4}, {2, 1}, {2, 2}, {2, 3}}) {
      SCOPED_TRACE(absl::StrCat(rule.name, " tp ", tp, " ep ", ep));
      PlanNumbers n;
      n.tp = tp;
      n.ep = ep;
      n.prefill_chunk = 5;  // several chunks
      rule.set(n);
      SealedPlan plan = support::BuildSealedPlan(n);
      const CallerInputs inputs = InputsFor(n);
      Checkpoint checkpoint = support::RandomCheckpoint(plan.plan(), 5);
      const std::vector<float> hidden = support::RandomValues(size_t{kTokens} * n.hidden, 9);
      const Plan content = plan.plan();  // the session takes the plan
      WholeModel model(content, checkpoint, inputs);
      const std::vector<double> expected = model.Layer(hidden);

      SessionOptions options;
      options.weights = {support::WriteCheckpoint(folder.path() / rule.name, checkpoint)};
      options.unverified_weights = true;
      options.deadline = std::chrono::milliseconds(20'000);
      absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(std::move(plan), options);
      ASSERT_TRUE(session.ok()) << session.status();
      for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
        for (const uint32_t tokens : {0u, 1u, kTokens}) {
          CheckRun(**session, n, phase, tokens, hidden, inputs, expected, model.selected);
        }
      }
    }
  }
}

}  // namespace
}  // namespace meshseal::runtime
