// Any bytes as a YAML document, and as the kind of document it says it is: a value, or errors that can be shown, never
// both and never neither.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/check/checked_model.h"
#include "compiler/import/write_manifest.h"
#include "compiler/manifest/read_manifest.h"
#include "compiler/text/render.h"
#include "compiler/yaml/yaml.h"
#include "nlohmann/json.hpp"
#include "tests/fuzz/change_text.h"
#include "tests/fuzz/fuzz_target.h"

namespace meshseal::fuzz {
namespace {

using compiler::Diagnostics;
using compiler::SourceFile;
using compiler::YamlNode;

// Limits and places of a tree; the number of its nodes.
size_t Walk(const YamlNode& node, const SourceFile& file, size_t depth) {
  const compiler::Span& span = node.span();
  Expect(span.file == &file && span.line >= 1 && span.line <= file.line_count() && span.column >= 1,
         "a node lies outside its file");
  Expect(depth <= compiler::kMaxYamlDepth, "a tree is too deep");
  size_t nodes = 1;
  if (const YamlNode::List* list = node.list()) {
    for (const YamlNode& item : *list) nodes += Walk(item, file, depth + 1);
  } else if (const YamlNode::Map* map = node.map()) {
    for (const compiler::YamlEntry& entry : *map) nodes += 1 + Walk(entry.value, file, depth + 1);
  }
  return nodes;
}

void Show(const Diagnostics& diagnostics) {
  Expect(!RenderText(diagnostics).empty(), "errors without a text");
  Expect(nlohmann::json::accept(RenderJson(diagnostics)), "errors as JSON that is none");
}

std::unique_ptr<const SourceFile> FileOf(std::string text) {
  absl::StatusOr<std::unique_ptr<const SourceFile>> file = SourceFile::FromText("fuzz.yaml", std::move(text));
  Expect(file.ok(), "a small text is no file");
  return *std::move(file);
}

// A model that is read is written, and reads back as the same one.
void TryWriting(const compiler::Manifest& model) {
  const std::string text = WriteManifest(model, {});
  const std::unique_ptr<const SourceFile> file = FileOf(text);
  Diagnostics diagnostics;
  const std::optional<YamlNode> root = ReadYaml(*file, diagnostics);
  std::optional<compiler::Manifest> again;
  if (root.has_value()) again = ReadManifest(*file, *root, diagnostics);
  Expect(again.has_value(), absl::StrCat("a written model is refused:\n", text, RenderText(diagnostics)));
  const std::string text_again = WriteManifest(*again, {});
  Expect(text_again == text, absl::StrCat("a written model is another one:\n", text, "---\n", text_again));
}

void TryDocument(const SourceFile& file) {
  Diagnostics diagnostics;
  const std::optional<YamlNode> root = ReadYaml(file, diagnostics);
  Expect(root.has_value() == diagnostics.ok(), "a tree and errors, or neither");
  bool read = false;
  if (root.has_value()) {
    Expect(Walk(*root, file, 1) <= compiler::kMaxYamlNodes, "a tree has too many nodes");
    const std::optional<compiler::DocumentKind> kind = KindOf(*root, diagnostics);
    Expect(kind.has_value() == diagnostics.ok(), "a kind and errors, or neither");
    if (kind == compiler::DocumentKind::kModel) {
      const std::optional<compiler::Manifest> model = ReadManifest(file, *root, diagnostics);
      read = model.has_value();
      Expect(read == diagnostics.ok(), "a model and errors, or neither");
      if (read) CheckManifest(*model, diagnostics);
      if (read && diagnostics.ok()) TryWriting(*model);
    } else if (kind == compiler::DocumentKind::kMesh) {
      const std::optional<compiler::MeshSpec> mesh = ReadMesh(file, *root, diagnostics);
      read = mesh.has_value();
      Expect(read == diagnostics.ok(), "a mesh and errors, or neither");
      if (read) CheckMesh(*mesh, diagnostics);
    } else if (kind == compiler::DocumentKind::kDeployment) {
      read = ReadDeployment(file, *root, diagnostics).has_value();
      Expect(read == diagnostics.ok(), "a deployment and errors, or neither");
    }
  }
  if (!diagnostics.ok()) Show(diagnostics);
  if (read && diagnostics.ok()) ++accepted;
}

}  // namespace
}  // namespace meshseal::fuzz

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  return meshseal::fuzz::ChangeText(data, size, max_size, seed);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = meshseal::fuzz::FileOf(std::string(meshseal::fuzz::TextOf(data, size)));
  meshseal::fuzz::TryDocument(*file);
  return 0;
}
