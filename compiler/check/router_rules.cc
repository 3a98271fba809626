// Rules over routing and activation: which words of a manifest have a meaning together.
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/check/role.h"
#include "compiler/check/rules.h"

namespace meshseal::compiler::rules {
namespace {

bool IsPositiveFloat(double value) {
  return value > 0 && value <= std::numeric_limits<float>::max() && static_cast<float>(value) > 0;
}

}  // namespace

void TopKWithinExperts(absl::string_view rule, const Manifest&, const LayerGroup& group, Diagnostics& diagnostics) {
  const MoeSpec& moe = group.moe;
  if (moe.experts_per_token.value <= moe.experts.value) return;
  diagnostics
      .Error(rule, moe.experts_per_token.span,
             absl::StrCat("experts_per_token ", moe.experts_per_token.value, " of ", moe.experts.value, " experts"))
      .notes.push_back({moe.experts.span, "a token's experts are distinct"});
}

void RouterScaleIsPositive(absl::string_view rule, const Manifest&, const LayerGroup& group, Diagnostics& diagnostics) {
  const Spanned<double>& scale = group.moe.router.scale;
  if (IsPositiveFloat(scale.value)) return;
  diagnostics.Error(rule, scale.span,
                    "router.scale must be above 0 and fit float32: every routed output is multiplied by it");
}

void RouterGuardsArePositive(absl::string_view rule, const Manifest&, const LayerGroup& group,
                             Diagnostics& diagnostics) {
  const RouterSpec& router = group.moe.router;
  const bool guarded =
      router.renormalize.value == Renormalize::kSumPlus || router.renormalize.value == Renormalize::kSumFloor;
  if (guarded && !IsPositiveFloat(router.guard.value)) {
    diagnostics.Error(rule, router.guard.span,
                      "the guard of a denominator must be above 0 and fit float32; without one, write sum");
  }
  if (router.scoring.value == Scoring::kSparsemixer && !IsPositiveFloat(router.epsilon.value)) {
    diagnostics.Error(rule, router.epsilon.span,
                      "eps must be above 0 and fit float32: logits within 2 eps of the best one are kept");
  }
}

void RouterGroupsFit(absl::string_view rule, const Manifest&, const LayerGroup& group, Diagnostics& diagnostics) {
  const MoeSpec& moe = group.moe;
  if (!moe.router.groups.has_value()) return;
  const RouterGroupsSpec& groups = *moe.router.groups;
  const uint64_t experts = moe.experts.value;
  const uint64_t size = experts / groups.count.value;
  if (groups.keep.value > groups.count.value) {
    diagnostics.Error(rule, groups.keep.span,
                      absl::StrCat("groups.keep ", groups.keep.value, " of ", groups.count.value, " groups"));
    return;
  }
  if (experts % groups.count.value != 0) {
    diagnostics
        .Error(rule, groups.count.span,
               absl::StrCat("groups.count ", groups.count.value, " does not divide experts ", experts))
        .notes.push_back({moe.experts.span, absl::StrCat(experts, " experts in ", groups.count.value, " groups leaves ",
                                                         experts % groups.count.value, " over")});
    return;
  }
  if (groups.keep.value * size < moe.experts_per_token.value) {
    diagnostics
        .Error(rule, groups.keep.span,
               absl::StrCat("groups.keep ", groups.keep.value, " leaves ", groups.keep.value * size, " experts (",
                            groups.keep.value, " groups of ", size, "), a token selects ", moe.experts_per_token.value))
        .notes.push_back({moe.experts_per_token.span, "an expert of a group that is not kept can never win"});
  }
  if (groups.score.value == GroupScore::kTop2Sum && size < 2) {
    diagnostics.Error(rule, groups.score.span,
                      absl::StrCat("score top2_sum adds the two best of a group, a group has ", size));
  }
}

void RouterTermsFit(absl::string_view rule, const Manifest&, const LayerGroup& group, Diagnostics& diagnostics) {
  const RouterSpec& router = group.moe.router;
  const Scoring scoring = router.scoring.value;
  const auto refuse = [&](Span span, const std::string& text) { diagnostics.Error(rule, span, text); };
  const bool tabled = !router.token_table_layers.value.empty();
  if (router.order.value == RouteOrder::kTopKThenScore) {
    if (router.selection_bias.value) {
      refuse(
          router.selection_bias.span,
          "selection_bias steers by scores, and with order topk_then_score there are none when experts are selected");
    }
    if (router.groups.has_value()) {
      refuse(router.groups->span,
             "groups are ranked by scores, and with order topk_then_score there are none when experts are selected");
    }
    if (tabled) {
      refuse(router.token_table_layers.span,
             "a token table selects and scores give the weights: its layers need order score_then_topk");
    }
  }
  // Both have a rule of their own for everything that follows the logits.
  if (scoring == Scoring::kSparsemixer || scoring == Scoring::kPrecomputed) {
    const std::string word = WordOf(scoring);
    if (router.order.value != RouteOrder::kScoreThenTopK) {
      refuse(router.order.span, absl::StrCat("scoring ", word, " has order score_then_topk"));
    }
    if (router.renormalize.value != Renormalize::kNone) {
      refuse(router.renormalize.span, absl::StrCat("scoring ", word, " has renormalize none"));
    }
    if (router.selection_bias.value) {
      refuse(router.selection_bias.span, absl::StrCat("scoring ", word, " has no selection bias"));
    }
    if (router.groups.has_value()) refuse(router.groups->span, absl::StrCat("scoring ", word, " has no groups"));
    if (tabled) refuse(router.token_table_layers.span, absl::StrCat("scoring ", word, " has no token table"));
  }
  if (scoring == Scoring::kPrecomputed && router.logit_bias.value) {
    refuse(router.logit_bias.span, "scoring precomputed has no logits to add a bias to");
  }
  if (scoring == Scoring::kPrecomputed && router.scale.value != 1) {
    refuse(router.scale.span,
           absl::StrCat("scoring precomputed is taken as it is: scale is ", router.scale.value, ", expected 1"));
  }
  if (scoring == Scoring::kSparsemixer && group.moe.experts_per_token.value != 2) {
    diagnostics
        .Error(rule, group.moe.experts_per_token.span,
               absl::StrCat("scoring sparsemixer selects two experts one after the other, experts_per_token is ",
                            group.moe.experts_per_token.value))
        .notes.push_back({router.scoring.span, "the scoring"});
  }
  if (scoring == Scoring::kSoftmax && router.order.value == RouteOrder::kTopKThenScore &&
      router.renormalize.value != Renormalize::kNone) {
    refuse(router.renormalize.span, "a softmax over the selected experts sums to 1 already: write none");
  }
}

void RouterIsNotNarrowed(absl::string_view rule, const Manifest&, const LayerGroup& group, Diagnostics& diagnostics) {
  const RouterSpec& router = group.moe.router;
  const TensorSpec* weights = group.moe.FindTensor(TensorRole::kRouter);
  if (weights == nullptr || router.input_dtype.value != Basis::kBf16 || weights->dtype.value == DType::kBf16) return;
  diagnostics
      .Error(rule, router.input_dtype.span,
             absl::StrCat("input_dtype bf16 rounds the router's weights, which are stored as ",
                          std::string(DTypeName(weights->dtype.value))))
      .notes.push_back({weights->dtype.span, "logits that differ by less than a step of bf16 select other experts"});
}

void WeightPointFits(absl::string_view rule, const Manifest&, const LayerGroup& group, Diagnostics& diagnostics) {
  const MoeSpec& moe = group.moe;
  const Spanned<WeightPoint>& point = moe.router.weight_applied;
  if (point.value == WeightPoint::kInput && moe.experts_per_token.value != 1) {
    diagnostics
        .Error(rule, point.span,
               absl::StrCat("weight_applied input scales what an expert reads, and a token selects ",
                            moe.experts_per_token.value, " experts"))
        .notes.push_back({moe.experts_per_token.span, "only with one expert per token is there one weight"});
  }
  const TensorSpec* bias = moe.FindTensor(TensorRole::kDownBias);
  if (point.value == WeightPoint::kActivation && bias != nullptr) {
    diagnostics
        .Error(rule, point.span,
               "weight_applied activation scales what down reads, so the down bias would not be weighted")
        .notes.push_back({bias->role.span, "the down bias"});
  }
}

void ActivationFits(absl::string_view rule, const Manifest&, const LayerGroup& group, Diagnostics& diagnostics) {
  const MoeSpec& moe = group.moe;
  const auto check = [&](const ActivationSpec& activation, const char* name) {
    const ActivationKind kind = activation.kind.value;
    const std::string word = WordOf(kind);
    const auto parameter = [&](const char* key, const std::optional<Spanned<double>>& found, bool expected) {
      if (found.has_value() != expected) {
        diagnostics.Error(rule, found.has_value() ? found->span : activation.kind.span,
                          absl::StrCat(name, ": ", word, expected ? " needs " : " has no ", key));
      } else if (expected && !IsPositiveFloat(found->value)) {
        diagnostics.Error(rule, found->span, absl::StrCat(name, ": ", key, " must be above 0 and fit float32"));
      }
    };
    parameter("alpha", activation.alpha, kind == ActivationKind::kSwiGluOai);
    parameter("limit", activation.limit, kind == ActivationKind::kSwiGluOai || kind == ActivationKind::kSwiGluPreclamp);
    const bool needs_gate = kind != ActivationKind::kRelu2;
    if (needs_gate == moe.gated.value) return;
    diagnostics
        .Error(rule, activation.kind.span,
               absl::StrCat(name, ": ", word, needs_gate ? " multiplies by a gate" : " has no gate", ", moe.gated is ",
                            moe.gated.value ? "true" : "false"))
        .notes.push_back({moe.gated.span, "moe.gated"});
  };
  check(moe.activation, "moe.activation");
  if (moe.shared_expert.has_value() && moe.shared_expert->activation.has_value()) {
    check(*moe.shared_expert->activation, "moe.shared_expert.activation");
  }
}

}  // namespace meshseal::compiler::rules
