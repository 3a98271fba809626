// Rules over the tensor rows of a manifest: roles, axes, names, layout.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "compiler/check/role.h"
#include "compiler/check/rules.h"
#include "schema/tensor_name.h"

namespace meshseal::compiler::rules {
namespace {

using Axes = std::vector<ShapeAxis>;

std::string AxesText(const Axes& axes) {
  std::vector<std::string> words;
  for (const ShapeAxis axis : axes) words.emplace_back(WordOf(axis));
  return absl::StrCat("[", absl::StrJoin(words, ", "), "]");
}

// The axes that a role's tensor may have, the usual ones first.
std::vector<Axes> LegalAxes(const RoleRow& row) {
  std::vector<Axes> legal;
  if (!IsMatrix(row)) {
    legal.push_back({row.outputs});
  } else if (row.role == TensorRole::kTokenTable) {
    legal.push_back({row.outputs, row.inputs});
  } else {
    legal.push_back({row.outputs, row.inputs});
    legal.push_back({row.inputs, row.outputs});
    if (row.outputs == ShapeAxis::kOne) legal.push_back({row.inputs});
  }
  if (!row.per_expert) return legal;
  const size_t one_expert = legal.size();
  for (size_t i = 0; i < one_expert; ++i) {
    Axes stacked = {ShapeAxis::kExperts};
    stacked.insert(stacked.end(), legal[i].begin(), legal[i].end());
    legal.push_back(stacked);
  }
  return legal;
}

size_t Count(const std::string& text, absl::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part.data(), 0, part.size()); at != std::string::npos;
       at = text.find(part.data(), at + 1, part.size())) {
    ++count;
  }
  return count;
}

// A name pattern for one layer; experts stay a pattern.
std::string InLayer(const std::string& name, uint32_t layer) {
  return absl::StrReplaceAll(name, {{"{layer}", absl::StrCat(layer)}});
}

// The first of the layers' names, experts as a pattern, that `ignored` matches.
std::optional<std::string> Covered(const std::string& ignored, const std::string& name,
                                   const std::vector<LayerRange>& layers) {
  for (const LayerRange& range : layers) {
    for (uint32_t layer = range.first; layer < range.last; ++layer) {
      const std::string own = InLayer(name, layer);
      if (PatternsOverlap(ignored, own)) return own;
    }
  }
  return std::nullopt;
}

}  // namespace

void TensorRolesAreRead(absl::string_view rule, const Manifest& model, Diagnostics& diagnostics) {
  struct Row {
    const TensorSpec* tensor;
    bool read;
    std::string why;
  };
  std::vector<Row> rows;
  for (const LayerGroup& group : model.groups) {
    for (const TensorSpec& tensor : group.moe.tensors) {
      const Reading reading = ReadingOf(group.moe, tensor.role.value);
      auto row =
          std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.tensor->role.span == tensor.role.span; });
      if (row == rows.end()) row = rows.insert(row, {&tensor, false, reading.why});
      row->read = row->read || reading.read;
    }
  }
  for (const Row& row : rows) {
    if (row.read) continue;
    diagnostics.Error(rule, row.tensor->role.span,
                      absl::StrCat("no step reads tensor '", WordOf(row.tensor->role.value), "': ", row.why));
  }
}

void IgnoredSparesRoles(absl::string_view rule, const Manifest& model, Diagnostics& diagnostics) {
  for (const Spanned<std::string>& pattern : model.ignored) {
    for (const LayerGroup& group : model.groups) {
      for (const TensorSpec* tensor : TensorsRead(group.moe)) {
        const auto check = [&](const Spanned<std::string>& name, const std::string& who) {
          if (!PatternsOverlap(pattern.value, name.value)) return;  // whatever the layer
          const std::optional<std::string> covered = Covered(pattern.value, name.value, group.layers);
          if (!covered.has_value()) return;
          diagnostics
              .Error(rule, pattern.span,
                     absl::StrCat("ignored pattern '", pattern.value, "' matches '", *covered, "', which a step reads"))
              .notes.push_back({name.span, absl::StrCat("tensor '", who, "'")});
        };
        const std::string role = WordOf(tensor->role.value);
        check(tensor->name, role);
        for (const NamedSide& side : SidesOf(*tensor)) check(side.side->name, absl::StrCat(role, ".", side.key));
      }
    }
  }
}

void TensorRolesComplete(absl::string_view rule, const Manifest& model, const LayerGroup& group,
                         Diagnostics& diagnostics) {
  const MoeSpec& moe = group.moe;
  for (const RoleRow& row : RoleRows()) {
    // A fused row is never asked for: gate and up apart are as good.
    if (row.fused) continue;
    const Reading reading = ReadingOf(moe, row.role);
    if (!reading.read || moe.FindTensor(row.role) != nullptr) continue;
    diagnostics.Error(rule, model.tensors_span,
                      absl::StrCat("weights.tensors has no '", WordOf(row.role), "': ", reading.why));
  }
  const TensorSpec* fused = moe.FindTensor(TensorRole::kGateUpBias);
  for (const TensorRole apart : {TensorRole::kGateBias, TensorRole::kUpBias}) {
    const TensorSpec* bias = moe.FindTensor(apart);
    if (fused == nullptr || bias == nullptr) continue;
    diagnostics.Error(rule, bias->role.span, absl::StrCat("'", WordOf(apart), "' would be added twice"))
        .notes.push_back({fused->role.span, "gate_up_bias has it"});
  }
}

void TensorShapesFitRoles(absl::string_view rule, const Manifest&, const LayerGroup& group, Diagnostics& diagnostics) {
  for (const TensorSpec& tensor : group.moe.tensors) {
    const RoleRow& row = RowOf(tensor.role.value);
    const std::vector<Axes> legal = LegalAxes(row);
    if (std::find(legal.begin(), legal.end(), tensor.shape.value) != legal.end()) continue;
    diagnostics.Error(
        rule, tensor.shape.span,
        absl::StrCat("tensor '", WordOf(row.role), "' has axes ", AxesText(tensor.shape.value), ", its product reads ",
                     AxesText(legal.front()),
                     IsExpertMatrix(row) ? absl::StrCat(" or, stored transposed, ", AxesText(legal[1])) : "",
                     row.per_expert ? ", experts first where they are stacked" : ""));
  }
}

void TensorNamesTellApart(absl::string_view rule, const Manifest& model, const LayerGroup& group,
                          Diagnostics& diagnostics) {
  uint64_t moe_layers = 0;
  for (const LayerRange& range : model.moe_layers.value) moe_layers += range.last - range.first;
  std::vector<std::pair<std::string, const Spanned<std::string>*>> seen;
  for (const TensorSpec& tensor : group.moe.tensors) {
    const bool by_name = RowOf(tensor.role.value).per_expert && !IsStacked(tensor);
    const auto check = [&](const Spanned<std::string>& name, const std::string& who) {
      const auto expect = [&](absl::string_view placeholder, size_t expected) {
        if (Count(name.value, placeholder) == expected) return;
        diagnostics.Error(rule, name.span,
                          absl::StrCat("the name of '", who, "' has ", std::string(placeholder), " ",
                                       Count(name.value, placeholder), " times, expected ", expected));
      };
      expect("{expert}", by_name ? 1 : 0);
      if (moe_layers > 1 || Count(name.value, "{layer}") > 1) expect("{layer}", 1);
      if (Count(name.value, "{layer}{expert}") + Count(name.value, "{expert}{layer}") > 0) {
        diagnostics.Error(rule, name.span,
                          absl::StrCat("the name of '", who,
                                       "' has {layer} and {expert} side by side: their numbers "
                                       "would run together"));
      }
      for (const auto& [other, other_name] : seen) {
        if (!PatternsOverlap(name.value, other_name->value)) continue;
        diagnostics
            .Error(rule, name.span,
                   absl::StrCat("'", who, "' reads ", name.value == other_name->value ? "the" : "a",
                                " same tensor as '", other, "'"))
            .notes.push_back({other_name->span, "the other one"});
        break;
      }
      seen.emplace_back(who, &name);
    };
    const std::string role = WordOf(tensor.role.value);
    check(tensor.name, role);
    for (const NamedSide& side : SidesOf(tensor)) check(side.side->name, absl::StrCat(role, ".", side.key));
  }
}

void LayoutIsSaid(absl::string_view rule, const Manifest&, const LayerGroup& group, Diagnostics& diagnostics) {
  for (const TensorSpec& tensor : group.moe.tensors) {
    const RoleRow& row = RowOf(tensor.role.value);
    if (row.fused && !tensor.layout.has_value()) {
      diagnostics.Error(rule, tensor.role.span,
                        absl::StrCat("tensor '", WordOf(row.role),
                                     "' does not say its layout: halves (gate rows, then up rows) or interleaved"));
    } else if (!row.fused && tensor.layout.has_value()) {
      diagnostics.Error(rule, tensor.layout->span,
                        absl::StrCat("tensor '", WordOf(row.role), "' is not fused: it has no layout"));
    }
  }
}

}  // namespace meshseal::compiler::rules
