// What a layer class computes, in words, and the tensors that it reads.
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/meaning/shape_facts.h"
#include "schema/plan_text_parts.h"
#include "schema/plan_words.h"

namespace meshseal {
namespace {

bool Has(const LayerClass& c, TensorRole role) { return meaning::FindTensor(c, role) != nullptr; }

std::string WeightsText(const Router& router) {
  std::string text = "weights ";
  switch (router.renormalize) {
    case Renormalize::kNone:
      text += "as they are";
      break;
    case Renormalize::kSum:
      text += "/ their sum";
      break;
    case Renormalize::kSumPlus:
      absl::StrAppend(&text, "/ (their sum + ", NumberText(router.guard), ")");
      break;
    case Renormalize::kSumFloor:
      absl::StrAppend(&text, "/ max(their sum, ", NumberText(router.guard), ")");
      break;
    case Renormalize::kInvalid:
      text += "invalid";
      break;
  }
  if (router.scale != 1.0f) absl::StrAppend(&text, " x ", NumberText(router.scale));
  return absl::StrCat(text, ", applied to ", WordOf(router.weight_applied));
}

// The formula from logits to weights.
std::string RouterText(const LayerClass& c) {
  const Router& router = c.router;
  const std::string weights = WeightsText(router);
  if (router.scoring == Scoring::kPrecomputed) {
    return absl::StrCat("the caller brings ids and weights of ", c.top_k, " experts; ", weights);
  }
  const std::string logits =
      absl::StrCat("logits in ", WordOf(router.input), Has(c, TensorRole::kRouterBias) ? " + router_bias" : "");
  std::string scoring = WordOf(router.scoring);
  if (router.epsilon != 0) absl::StrAppend(&scoring, " (epsilon ", NumberText(router.epsilon), ")");
  if (Has(c, TensorRole::kTokenTable)) {
    return absl::StrCat(logits, "; ", scoring, "; the ", c.top_k, " ids of the token's row in a table of ",
                        router.vocabulary, "; ", weights);
  }
  const bool first = router.order == RouteOrder::kTopKThenScore;
  std::string chosen = absl::StrCat("best ", c.top_k, " by ", first ? "logit" : "score",
                                    Has(c, TensorRole::kSelectionBias) ? " + selection_bias" : "");
  if (router.groups.count > 0) {
    absl::StrAppend(&chosen, " in the ", router.groups.keep, " best of ", router.groups.count, " groups by ",
                    WordOf(router.groups.score));
  }
  return first ? absl::StrCat(logits, "; ", chosen, "; ", scoring, " of those; ", weights)
               : absl::StrCat(logits, "; ", scoring, " of all; ", chosen, "; ", weights);
}

std::string SharedText(const LayerClass& c) {
  const SharedExpert& shared = c.shared_expert;
  const bool owner = shared.placement == SharedPlacement::kOwner;
  return absl::StrCat(shared.width, " columns, ", ActivationText(shared.activation), ", gate ", WordOf(shared.gate),
                      ", ", WordOf(shared.placement), owner ? ": on ep 0, cut over " : ": cut over ",
                      CountText(shared.part_ends.size(), "rank"));
}

void AppendTensors(const LayerClass& c, std::string* text) {
  std::vector<std::vector<std::string>> rows;
  for (const TensorClass& tensor : c.tensors) {
    rows.push_back({WordOf(tensor.role), std::string(DTypeName(tensor.dtype)), ShapeText(tensor), LayoutText(tensor),
                    Shown(tensor.name)});
    for (const SideTensor& side : tensor.sides) {
      rows.push_back({absl::StrCat("  ", WordOf(side.kind)), std::string(DTypeName(side.dtype)), ScaleText(side), "",
                      Shown(side.name)});
    }
  }
  AppendTable(rows, "    ", text);
}

// What is told of a layer class after its layers.
std::string BodyText(const Plan& plan, const LayerClass& c) {
  std::string text = absl::StrCat(": ", c.experts, " experts, top ", c.top_k, ", ", plan.hidden, " hidden x ",
                                  c.intermediate, " columns\n");
  std::vector<std::vector<std::string>> rows = {
      {"router", RouterText(c)},
      {"activation", absl::StrCat(ActivationText(c.activation), "; gate and up read ", WordOf(c.gate_up_basis),
                                  ", down ", WordOf(c.down_basis), "; residual ", WordOf(c.residual))}};
  if (c.shared_expert.width > 0) rows.push_back({"shared expert", SharedText(c)});
  if (plan.reduction == Reduction::kExact) {
    const size_t shared = c.shared_expert.segment_ends.size();
    rows.push_back({"exact sum", absl::StrCat(c.fraction_bits, " fraction bits, ",
                                              CountText(c.segment_ends.size(), "column segment"),
                                              shared == 0 ? "" : absl::StrCat(", ", shared, " of the shared expert"))});
  }
  AppendTable(rows, "  ", &text);
  absl::StrAppend(&text, "  tensors\n");
  AppendTensors(c, &text);
  return text;
}

}  // namespace

std::string LayoutText(const TensorClass& tensor) {
  std::vector<std::string> parts;
  const meaning::RoleFacts* facts = meaning::FactsOf(tensor.role);
  if (facts != nullptr && facts->per_expert && !tensor.shape.empty()) {
    parts.emplace_back(tensor.shape[0] == ShapeAxis::kExperts ? "stacked" : "by expert");
  }
  if (tensor.layout != GateUpLayout::kInvalid) parts.emplace_back(WordOf(tensor.layout));
  if (tensor.rotation != 0) parts.push_back(absl::StrCat("rotated by ", tensor.rotation));
  return absl::StrJoin(parts, ", ");
}

std::string ScaleText(const SideTensor& side) {
  std::string text = side.block_rows == 0 ? std::string("one a matrix")
                                          : absl::StrCat("blocks of ", side.block_rows, " x ", side.block_columns);
  if (side.applies != ScaleApplies::kInvalid) absl::StrAppend(&text, ", ", WordOf(side.applies));
  if (side.of != ScaleOf::kInvalid) absl::StrAppend(&text, ", of ", WordOf(side.of));
  return text;
}

void AppendLayerClasses(const Plan& plan, const std::vector<const LayerClass*>& classes, std::string* text) {
  // Layers that only their owners tell apart are told once, in the order of their first layers.
  std::vector<std::string> bodies;
  std::map<std::string, Intervals> layers_of;
  for (const LayerClass* c : classes) {
    const std::string body = BodyText(plan, *c);
    const auto [found, added] = layers_of.emplace(body, Intervals{});
    if (added) bodies.push_back(body);
    for (const Interval& layers : LayersOf(*c)) found->second.push_back(layers);
  }
  for (size_t i = 0; i < bodies.size() && i < kMostKinds; ++i) {
    absl::StrAppend(text, LayersText(Joined(layers_of[bodies[i]])), bodies[i]);
  }
  if (bodies.size() > kMostKinds) absl::StrAppend(text, MoreText(bodies.size() - kMostKinds, "kinds of layer"));
}

}  // namespace meshseal
