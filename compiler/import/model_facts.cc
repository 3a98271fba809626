#include "compiler/import/model_facts.h"

#include "absl/strings/ascii.h"

namespace meshseal::compiler {

Manifest EmptyImport(absl::string_view name, absl::string_view family) {
  Manifest manifest;
  manifest.name.value = std::string(name);
  manifest.family.value = std::string(family);
  LayerGroup group;
  group.moe.gated.value = true;
  group.moe.residual.value = Residual::kNone;
  manifest.groups.push_back(group);
  CollectiveSpec collective;
  collective.after.value = "combine";
  collective.op.value = "sum";
  collective.over.value = "expert_group";
  manifest.collectives.push_back(collective);
  return manifest;
}

std::string ModelNameOf(absl::string_view text) {
  std::string name;
  for (const char c : text) {
    const char lower = absl::ascii_tolower(static_cast<unsigned char>(c));
    const bool kept = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.';
    // Everything else is one '-' between two kept characters.
    if (kept) {
      name.push_back(lower);
    } else if (!name.empty() && name.back() != '-') {
      name.push_back('-');
    }
  }
  while (!name.empty() && (name.back() == '-' || name.back() == '.')) name.pop_back();
  return name.empty() ? "model" : name;
}

std::vector<LayerRange> RangesOf(const std::vector<uint32_t>& layers) {
  std::vector<LayerRange> ranges;
  for (const uint32_t layer : layers) {
    if (!ranges.empty() && ranges.back().last == layer) {
      ++ranges.back().last;
    } else {
      ranges.push_back({layer, layer + 1});
    }
  }
  return ranges;
}

std::vector<uint32_t> LayersOf(const std::vector<LayerRange>& ranges) {
  std::vector<uint32_t> layers;
  for (const LayerRange& range : ranges) {
    for (uint32_t layer = range.first; layer < range.last; ++layer) layers.push_back(layer);
  }
  return layers;
}

}  // namespace meshseal::compiler
