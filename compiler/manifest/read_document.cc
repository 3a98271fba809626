#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/manifest/read_manifest.h"

namespace meshseal::compiler {
namespace {

constexpr absl::string_view kVersionKey = "meshseal";
constexpr uint64_t kVersion = 1;

struct KindRow {
  DocumentKind kind;
  const char* key;
};
constexpr std::array kKinds = {KindRow{DocumentKind::kModel, "model"}, KindRow{DocumentKind::kMesh, "mesh"},
                               KindRow{DocumentKind::kDeployment, "deployment"}};

}  // namespace

std::optional<DocumentKind> KindOf(const YamlNode& root, Diagnostics& diagnostics) {
  const YamlNode::Map* map = root.map();
  if (map == nullptr || map->empty() || map->front().key != kVersionKey) {
    diagnostics.Error("document-version", root.span(), "expected `meshseal: 1` as the document's first key");
    return std::nullopt;
  }
  const YamlNode& version = map->front().value;
  if (version.scalar() == nullptr || version.scalar()->text != absl::StrCat(kVersion)) {
    diagnostics.Error("document-version", version.span(),
                      absl::StrCat("this version reads documents of `meshseal: ", kVersion, "`"));
    return std::nullopt;
  }
  std::optional<DocumentKind> kind;
  for (const YamlEntry& entry : *map) {
    for (const KindRow& row : kKinds) {
      if (entry.key != row.key) continue;
      if (kind.has_value()) {
        diagnostics.Error("document-kind", entry.key_span,
                          absl::StrCat("a second kind of document, '", entry.key, "', in one file"));
        return std::nullopt;
      }
      kind = row.kind;
    }
  }
  if (!kind.has_value()) {
    diagnostics.Error("document-kind", root.span(), "expected one of the keys model, mesh, deployment");
  }
  return kind;
}

}  // namespace meshseal::compiler
