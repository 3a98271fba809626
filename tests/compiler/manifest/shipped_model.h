// A shipped model with edits to its text, read.
#ifndef MESHSEAL_TESTS_COMPILER_MANIFEST_SHIPPED_MODEL_H_
#define MESHSEAL_TESTS_COMPILER_MANIFEST_SHIPPED_MODEL_H_

#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/check/checked_model.h"
#include "compiler/manifest/read_manifest.h"
#include "compiler/text/diagnostic.h"
#include "compiler/yaml/yaml.h"

namespace meshseal::compiler {

class ShippedModel {
 public:
  // Replaces every text of `edits` (each must stand in the document) and adds `tail` at the end.
  ShippedModel(const std::string& name, const std::vector<std::pair<std::string, std::string>>& edits,
               const std::string& tail) {
    std::ifstream stream(absl::StrCat(MESHSEAL_MANIFESTS, "/models/", name, ".yaml"));
    std::stringstream bytes;
    bytes << stream.rdbuf();
    std::string text = bytes.str();
    for (const auto& [from, to] : edits) {
      if (absl::StrReplaceAll({{from, to}}, &text) == 0) missing_edit_ = from;
    }
    file_ = SourceFile::FromText("model.yaml", text + tail).value();
    if (const auto root = ReadYaml(*file_, diagnostics_)) model_ = ReadManifest(*file_, *root, diagnostics_);
    if (model_.has_value()) CheckManifest(*model_, diagnostics_);
  }

  bool has_model() const { return model_.has_value(); }
  const Manifest& model() const { return *model_; }
  const std::string& missing_edit() const { return missing_edit_; }
  Diagnostics& diagnostics() { return diagnostics_; }

  // Every error on a line of its own, sorted by place: "text [rule]".
  std::string Said() const {
    std::string said;
    for (const Diagnostic* error : diagnostics_.Sorted()) {
      absl::StrAppend(&said, error->text, " [", error->rule, "]\n");
    }
    return said;
  }

 private:
  std::string missing_edit_;
  Diagnostics diagnostics_;
  std::unique_ptr<const SourceFile> file_;
  std::optional<Manifest> model_;
};

}  // namespace meshseal::compiler

#endif  // MESHSEAL_TESTS_COMPILER_MANIFEST_SHIPPED_MODEL_H_
