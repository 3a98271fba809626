// Rules over a mesh alone.
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/check/rules.h"

namespace meshseal::compiler::rules {

void DevicesAreKnown(absl::string_view rule, const MeshSpec& mesh, Diagnostics& diagnostics) {
  for (const NodeSpec& node : mesh.nodes) {
    if (mesh.FindKind(node.kind.value) != nullptr) continue;
    diagnostics.Error(rule, node.kind.span,
                      absl::StrCat("device kind '", node.kind.value, "' is not in mesh.device_kinds"));
  }
}

void NodesAreNamedOnce(absl::string_view rule, const MeshSpec& mesh, Diagnostics& diagnostics) {
  std::map<std::string, Span> seen;
  for (const NodeSpec& node : mesh.nodes) {
    const auto [other, inserted] = seen.emplace(node.name.value, node.name.span);
    if (inserted) continue;
    diagnostics.Error(rule, node.name.span, absl::StrCat("a second node '", node.name.value, "'"))
        .notes.push_back({other->second, "the first one"});
  }
}

void IslandsCoverNodes(absl::string_view rule, const MeshSpec& mesh, Diagnostics& diagnostics) {
  std::map<std::string, Span> placed;
  for (const IslandSpec& island : mesh.islands) {
    for (const Spanned<std::string>& name : island.nodes) {
      bool exists = false;
      for (const NodeSpec& node : mesh.nodes) exists = exists || node.name.value == name.value;
      if (!exists) diagnostics.Error(rule, name.span, absl::StrCat("there is no node '", name.value, "'"));
      const auto [other, inserted] = placed.emplace(name.value, name.span);
      if (!inserted) {
        diagnostics.Error(rule, name.span, absl::StrCat("node '", name.value, "' is in two islands"))
            .notes.push_back({other->second, "the other one"});
      }
    }
  }
  for (const NodeSpec& node : mesh.nodes) {
    if (placed.count(node.name.value) == 0) {
      diagnostics.Error(rule, node.name.span, absl::StrCat("node '", node.name.value, "' is in no island"));
    }
  }
  if (mesh.islands.size() > 1 && !mesh.between_islands.has_value()) {
    diagnostics.Error(rule, mesh.islands_span,
                      absl::StrCat(mesh.islands.size(), " islands and no between_islands link joins them"));
  }
}

}  // namespace meshseal::compiler::rules
