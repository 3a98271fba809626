#include "compiler/import/finish_import.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "compiler/check/checked_model.h"
#include "compiler/check/tensor_table.h"
#include "compiler/import/write_manifest.h"
#include "compiler/manifest/read_manifest.h"
#include "compiler/yaml/yaml.h"
#include "schema/reason.h"
#include "schema/status_macros.h"
#include "schema/version.h"

namespace meshseal::compiler {

absl::StatusOr<ImportResult> FinishImport(const ModelFacts& facts, absl::string_view from,
                                          const CheckpointListing* listing) {
  ImportResult result;
  result.notes = facts.assumed;
  std::vector<std::string> comment = {
      absl::StrCat("Imported from ", absl::Utf8SafeCEscape(from), " by meshseal ", Version(), ".")};
  for (const std::string& fact : facts.assumed) comment.push_back(absl::StrCat("Not in a file: ", fact, "."));
  result.text = WriteManifest(facts.manifest, comment);
  MESHSEAL_ASSIGN_OR_RETURN(result.file, SourceFile::FromText("(imported)", result.text));
  const std::optional<YamlNode> root = ReadYaml(*result.file, result.diagnostics);
  if (!root.has_value() || !KindOf(*root, result.diagnostics).has_value()) return result;
  const std::optional<Manifest> manifest = ReadManifest(*result.file, *root, result.diagnostics);
  if (!manifest.has_value()) return result;
  if (WriteManifest(*manifest, comment) != result.text) {
    return Refuse(Reason::kBug, "the imported manifest reads back as another one");
  }
  CheckManifest(*manifest, result.diagnostics);
  if (result.diagnostics.ok() && listing != nullptr) CheckTensorTable(*manifest, *listing, result.diagnostics);
  return result;
}

}  // namespace meshseal::compiler
