// Rules over a model manifest as a whole: its layers, heads and collective.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/check/rules.h"

namespace meshseal::compiler::rules {

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

void ListedLayersAreMoe(absl::string_view rule, const Manifest& model, Diagnostics& diagnostics) {
  std::vector<bool> moe(model.layers.value, false);
  for (const LayerRange& range : model.moe_layers.value) {
    for (uint32_t layer = range.first; layer < range.last && layer < moe.size(); ++layer) moe[layer] = true;
  }
  for (const Spanned<std::vector<LayerRange>>& list : model.layer_lists) {
    for (const LayerRange& range : list.value) {
      uint32_t layer = range.first;
      while (layer < range.last && layer < moe.size() && moe[layer]) ++layer;
      if (layer == range.last) continue;
      diagnostics.Error(rule, list.span, absl::StrCat("layer ", layer, " is no MoE layer"))
          .notes.push_back({model.moe_layers.span, "the MoE layers"});
      break;
    }
  }
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
