// Rules on layer classes: their layers, sizes, router, activations and shared expert.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schema/meaning/rules.h"
#include "schema/meaning/shape_facts.h"

namespace meshseal::meaning {
namespace {

constexpr uint32_t kMostLayers = 1u << 16;
constexpr size_t kMostClasses = 1024;  // each costs time for every rank

Fault CheckSize(const char* what, uint32_t size, uint32_t most) {
  if (size >= 1 && size <= most) return std::nullopt;
  return absl::StrCat(what, " ", size, ", expected 1 to ", most);
}

std::string At(const LayerClass& c) { return absl::StrCat("layer ", c.layers.front().first, ": "); }

// Not -0: the same content would have two encodings.
bool IsZero(float value) { return value == 0 && !std::signbit(value); }

// A parameter is a finite number above 0 where it is used, and 0 elsewhere.
Fault CheckParameter(const char* what, float value, bool used) {
  if (used ? std::isfinite(value) && value > 0 : IsZero(value)) return std::nullopt;
  return absl::StrCat(what, " ", value, used ? ", expected a finite number above 0" : ", nothing reads it");
}

Fault CheckGroups(const RouterGroups& groups, uint32_t experts, uint32_t top_k) {
  if (groups.count == 0) {
    if (groups == RouterGroups{}) return std::nullopt;
    return absl::StrCat("0 groups with a keep of ", groups.keep, " and a score of ", WordOf(groups.score));
  }
  if (!IsKnown(groups.score)) return std::string("groups without a score");
  if (experts % groups.count != 0) return absl::StrCat(groups.count, " groups of ", experts, " experts");
  if (groups.keep == 0 || groups.keep > groups.count) {
    return absl::StrCat(groups.keep, " of ", groups.count, " groups are kept");
  }
  const uint64_t size = experts / groups.count;
  if (groups.keep * size < top_k) {
    return absl::StrCat(groups.keep, " groups of ", size, " experts are kept, a token selects ", top_k);
  }
  if (groups.score == GroupScore::kTop2Sum && size < 2) {
    return std::string("groups of 1 expert are scored by the sum of 2");
  }
  return std::nullopt;
}

// Words that have no meaning together.
Fault CheckWords(const LayerClass& c) {
  const Router& r = c.router;
  const bool selection_bias = FindTensor(c, TensorRole::kSelectionBias) != nullptr;
  const bool table = FindTensor(c, TensorRole::kTokenTable) != nullptr;
  const bool steered = selection_bias || table || r.groups.count > 0;
  // Selection by scores needs them before the top-k; these two scorings select and weigh in their own way.
  const bool own = r.scoring == Scoring::kSparsemixer || r.scoring == Scoring::kPrecomputed;
  if (steered && (own || r.order == RouteOrder::kTopKThenScore)) {
    return absl::StrCat("scoring ", WordOf(r.scoring), " ", WordOf(r.order),
                        " with a selection bias, groups or a token table");
  }
  if (own && (r.order != RouteOrder::kScoreThenTopK || r.renormalize != Renormalize::kNone)) {
    return absl::StrCat("scoring ", WordOf(r.scoring), " with ", WordOf(r.order), " and renormalize ",
                        WordOf(r.renormalize));
  }
  if (r.scoring == Scoring::kPrecomputed && r.scale != 1) {
    return absl::StrCat("a routed scale of ", r.scale, " on a precomputed routing, which is taken as it is");
  }
  if (r.scoring == Scoring::kSparsemixer && c.top_k != 2) {
    return absl::StrCat("scoring sparsemixer selects 2 experts, top_k is ", c.top_k);
  }
  if (r.weight_applied == WeightPoint::kInput && c.top_k != 1) {
    return absl::StrCat("the weight is applied on the input, which ", c.top_k, " experts read");
  }
  if (r.weight_applied == WeightPoint::kActivation && FindTensor(c, TensorRole::kDownBias) != nullptr) {
    return std::string("the weight is applied on the activation, and down adds a bias after it");
  }
  if (r.input != Basis::kF32 && r.input != Basis::kBf16) {
    return absl::StrCat("the router's product reads ", WordOf(r.input), ", expected f32 or bf16");
  }
  if ((r.vocabulary > 0) != table) {
    return absl::StrCat("a vocabulary of ", r.vocabulary, " with", table ? "" : "out", " a token table");
  }
  return std::nullopt;
}

Fault CheckActivation(const char* whose, const Activation& activation, bool gated) {
  const bool oai = activation.kind == ActivationKind::kSwiGluOai;
  const bool clamps = oai || activation.kind == ActivationKind::kSwiGluPreclamp;
  if ((activation.kind != ActivationKind::kRelu2) != gated) {
    return absl::StrCat(whose, " ", WordOf(activation.kind), " with", gated ? "" : "out", " a gate tensor");
  }
  return FirstOf({CheckParameter("activation.alpha", activation.alpha, oai),
                  CheckParameter("activation.limit", activation.limit, clamps)});
}

// Runs `check` on every layer class until one has a fault.
template <class F>
Fault ForEachClass(const Plan& plan, F check) {
  for (const LayerClass& c : plan.layer_classes) {
    if (Fault fault = check(c)) return absl::StrCat(At(c), *fault);
  }
  return std::nullopt;
}

}  // namespace

Fault LayersAreCoveredOnce(const Plan& plan, const SealFacts&) {
  if (plan.layer_classes.empty()) return std::string("the plan has no MoE layer");
  if (plan.layer_classes.size() > kMostClasses) {
    return absl::StrCat(plan.layer_classes.size(), " layer classes, at most ", kMostClasses, " are read");
  }
  std::vector<LayerRange> all;
  uint32_t previous_first = 0;
  for (size_t i = 0; i < plan.layer_classes.size(); ++i) {
    const std::vector<LayerRange>& layers = plan.layer_classes[i].layers;
    if (layers.empty()) return absl::StrCat("layer class ", i, " has no layer");
    if (i > 0 && layers.front().first <= previous_first) return absl::StrCat("layer class ", i, " is out of order");
    previous_first = layers.front().first;
    for (size_t j = 0; j < layers.size(); ++j) {
      if (layers[j].first >= layers[j].last || layers[j].last > plan.layers) {
        return absl::StrCat("layers [", layers[j].first, ",", layers[j].last, ") of a model with ", plan.layers);
      }
      if (j > 0 && layers[j].first <= layers[j - 1].last) {
        return absl::StrCat("layer range [", layers[j].first, ",", layers[j].last, ") touches the one before it");
      }
    }
    all.insert(all.end(), layers.begin(), layers.end());
  }
  std::sort(all.begin(), all.end(), [](const LayerRange& a, const LayerRange& b) { return a.first < b.first; });
  for (size_t i = 1; i < all.size(); ++i) {
    if (all[i].first < all[i - 1].last) return absl::StrCat("layer ", all[i].first, " is in two classes");
  }
  return std::nullopt;
}

Fault SizesAreSane(const Plan& plan, const SealFacts&) {
  if (Fault fault = CheckSize("hidden", plan.hidden, kLargestSize)) return fault;
  if (Fault fault = CheckSize("layers", plan.layers, kMostLayers)) return fault;
  for (const LayerClass& c : plan.layer_classes) {
    if (Fault fault = CheckSize("experts", c.experts, kLargestSize)) return fault;
    if (Fault fault = CheckSize("intermediate", c.intermediate, kLargestSize)) return fault;
    if (Fault fault = CheckSize("top_k", c.top_k, c.experts)) return fault;
    if (c.shared_expert.width == 0) continue;
    if (Fault fault = CheckSize("shared width", c.shared_expert.width, kLargestSize)) return fault;
  }
  return std::nullopt;
}

Fault RouterIsCoherent(const Plan& plan, const SealFacts&) {
  return ForEachClass(plan, [](const LayerClass& c) {
    const Router& r = c.router;
    const bool guarded = r.renormalize == Renormalize::kSumPlus || r.renormalize == Renormalize::kSumFloor;
    return FirstOf({CheckParameter("routed scale", r.scale, true),
                    CheckParameter("epsilon", r.epsilon, r.scoring == Scoring::kSparsemixer),
                    CheckParameter("guard", r.guard, guarded), CheckGroups(r.groups, c.experts, c.top_k),
                    CheckWords(c)});
  });
}

Fault ActivationsAreCoherent(const Plan& plan, const SealFacts&) {
  return ForEachClass(plan, [](const LayerClass& c) -> Fault {
    if (Fault fault = CheckActivation("the experts'", c.activation, IsGated(c))) return fault;
    if (c.shared_expert.width == 0) return std::nullopt;
    return CheckActivation("the shared expert's", c.shared_expert.activation, SharedIsGated(c));
  });
}

Fault SharedExpertIsCoherent(const Plan& plan, const SealFacts&) {
  return ForEachClass(plan, [](const LayerClass& c) -> Fault {
    const SharedExpert& s = c.shared_expert;
    if (s.width == 0) {
      if (s == SharedExpert{} && IsZero(s.activation.alpha) && IsZero(s.activation.limit)) return std::nullopt;
      return std::string("a shared expert of width 0 has a gate, an activation, a placement or parts");
    }
    if (IsKnown(s.gate) && IsKnown(s.activation.kind) && IsKnown(s.placement)) return std::nullopt;
    return absl::StrCat("a shared expert of width ", s.width, " without gate, activation or placement");
  });
}

}  // namespace meshseal::meaning
