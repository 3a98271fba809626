// Rules over a model manifest alone.
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/check/rules.h"

namespace meshseal::compiler::rules {
namespace {

std::string AxesText(const std::vector<ShapeAxis>& axes) {
  std::vector<std::string> words;
  for (const ShapeAxis axis : axes) words.emplace_back(WordOf(axis));
  return absl::StrCat("[", absl::StrJoin(words, ", "), "]");
}

// Rows of a product's output first, the axis it contracts over last. A tensor per expert has no experts axis.
std::vector<ShapeAxis> AxesOf(TensorRole role) {
  switch (role) {
    case TensorRole::kRouter:
      return {ShapeAxis::kExperts, ShapeAxis::kHidden};
    case TensorRole::kDown:
      return {ShapeAxis::kHidden, ShapeAxis::kIntermediate};
    case TensorRole::kGate:
    case TensorRole::kUp:
    case TensorRole::kInvalid:
      break;
  }
  return {ShapeAxis::kIntermediate, ShapeAxis::kHidden};
}

size_t Count(const std::string& text, absl::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part.data(), 0, part.size()); at != std::string::npos;
       at = text.find(part.data(), at + 1, part.size())) {
    ++count;
  }
  return count;
}

}  // namespace

void LayersAreInModel(absl::string_view rule, const Manifest& model, Diagnostics& diagnostics) {
  uint64_t end = 0;
  bool first = true;
  for (const LayerRange& range : model.moe_layers.value) {
    if (range.last > model.layers.value) {
      diagnostics
          .Error(rule, model.moe_layers.span,
                 absl::StrCat("moe.layers reach layer ", range.last - 1, ", the last one is ", model.layers.value - 1))
          .notes.push_back({model.layers.span, absl::StrCat("the model has ", model.layers.value, " layers, from 0")});
      return;
    }
    if (!first && range.first <= end) {
      diagnostics.Error(rule, model.moe_layers.span,
                        absl::StrCat("moe.layers: ", range.first, " does not come after ", end - 1,
                                     range.first == end ? " with a gap; write one range" : ""));
      return;
    }
    end = range.last;
    first = false;
  }
  if (first) diagnostics.Error(rule, model.moe_layers.span, "moe.layers: there is no MoE layer to plan");
}

void TopKWithinExperts(absl::string_view rule, const Manifest& model, Diagnostics& diagnostics) {
  if (model.experts_per_token.value <= model.experts.value) return;
  diagnostics
      .Error(rule, model.experts_per_token.span,
             absl::StrCat("experts_per_token ", model.experts_per_token.value, " of ", model.experts.value, " experts"))
      .notes.push_back({model.experts.span, "a token's experts are distinct"});
}

void KvHeadsDivideHeads(absl::string_view rule, const Manifest& model, Diagnostics& diagnostics) {
  if (!model.attention.has_value()) return;
  const uint64_t heads = model.attention->heads.value;
  const uint64_t kv_heads = model.attention->kv_heads.value;
  if (heads % kv_heads == 0) return;
  diagnostics
      .Error(rule, model.attention->kv_heads.span,
             absl::StrCat("kv_heads ", kv_heads, " does not divide heads ", heads))
      .notes.push_back({model.attention->heads.span,
                        absl::StrCat(heads, " heads over ", kv_heads, " KV heads leaves ", heads % kv_heads, " over")});
}

void RouterScaleIsPositive(absl::string_view rule, const Manifest& model, Diagnostics& diagnostics) {
  const double scale = model.router.scale.value;
  if (scale > 0 && scale <= std::numeric_limits<float>::max() && static_cast<float>(scale) > 0) return;
  diagnostics.Error(rule, model.router.scale.span,
                    "router.scale must be above 0 and fit float32: every routed output is multiplied by it");
}

void TensorRolesComplete(absl::string_view rule, const Manifest& model, Diagnostics& diagnostics) {
  for (const TensorRole role : {TensorRole::kRouter, TensorRole::kGate, TensorRole::kUp, TensorRole::kDown}) {
    size_t count = 0;
    for (const TensorSpec& tensor : model.tensors) count += tensor.role.value == role ? 1 : 0;
    if (count == 0) {
      diagnostics.Error(
          rule, model.tensors_span,
          absl::StrCat("weights.tensors has no '", WordOf(role), "': a gated MoE block reads router, gate, up, down"));
    }
  }
}

void TensorShapesFitRoles(absl::string_view rule, const Manifest& model, Diagnostics& diagnostics) {
  for (const TensorSpec& tensor : model.tensors) {
    const std::vector<ShapeAxis> expected = AxesOf(tensor.role.value);
    if (tensor.shape.value == expected) continue;
    diagnostics.Error(rule, tensor.shape.span,
                      absl::StrCat("tensor '", WordOf(tensor.role.value), "' has axes ", AxesText(tensor.shape.value),
                                   ", its product reads ", AxesText(expected)));
  }
}

void TensorNamesTellApart(absl::string_view rule, const Manifest& model, Diagnostics& diagnostics) {
  uint64_t moe_layers = 0;
  for (const LayerRange& range : model.moe_layers.value) moe_layers += range.last - range.first;
  std::map<std::string, const TensorSpec*> seen;
  for (const TensorSpec& tensor : model.tensors) {
    const std::string& name = tensor.name.value;
    const bool per_expert = tensor.role.value != TensorRole::kRouter;
    const auto expect = [&](absl::string_view placeholder, size_t expected) {
      if (Count(name, placeholder) == expected) return;
      diagnostics.Error(rule, tensor.name.span,
                        absl::StrCat("the name of '", WordOf(tensor.role.value), "' has ", std::string(placeholder),
                                     " ", Count(name, placeholder), " times, expected ", expected));
    };
    expect("{expert}", per_expert ? 1 : 0);
    if (moe_layers > 1) {
      expect("{layer}", 1);
    } else if (Count(name, "{layer}") > 1) {
      expect("{layer}", 1);
    }
    const auto [other, inserted] = seen.emplace(name, &tensor);
    if (!inserted) {
      diagnostics
          .Error(rule, tensor.name.span,
                 absl::StrCat("'", WordOf(tensor.role.value), "' reads the same tensor as '",
                              WordOf(other->second->role.value), "'"))
          .notes.push_back({other->second->name.span, "the other one"});
    }
  }
}

void OneCollective(absl::string_view rule, const Manifest& model, Diagnostics& diagnostics) {
  constexpr absl::string_view kExpected = "{after: combine, op: sum, over: expert_group}";
  if (model.collectives.size() != 1) {
    diagnostics.Error(rule, model.collectives_span,
                      absl::StrCat("collectives has ", model.collectives.size(),
                                   " rows, expected exactly one: ", std::string(kExpected)));
  }
  for (const CollectiveSpec& row : model.collectives) {
    const auto expect = [&](absl::string_view field, const Spanned<std::string>& found, absl::string_view expected,
                            absl::string_view why) {
      if (found.value == expected) return;
      diagnostics.Error(rule, found.span,
                        absl::StrCat("the collective's '", std::string(field), "' is '", found.value, "', expected '",
                                     std::string(expected), "': ", std::string(why)));
    };
    expect("after", row.after, "combine", "any earlier, addends would be reduced that are not weighted sums yet");
    expect("op", row.op, "sum", "combine leaves addends");
    expect("over", row.over, "expert_group", "exactly its ranks hold the addends");
  }
}

}  // namespace meshseal::compiler::rules
