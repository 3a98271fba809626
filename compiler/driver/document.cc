#include "compiler/driver/document.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/quoted_name.h"
#include "schema/reason.h"
#include "schema/status_macros.h"
#include "schema/utf8.h"

namespace meshseal::compiler {

absl::Status CheckFileName(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  if (name.rfind('.') != 0 && IsUtf8(name) && !HasControlCharacter(name)) {
    return absl::OkStatus();
  }
  return Refuse(Reason::kUsage, absl::StrCat("the file's name ", QuotedName(name),
                                             " cannot stand in a plan: expected printable text before its ending"));
}

absl::StatusOr<Document> OpenDocument(const std::string& path, SourceFiles& files, Diagnostics& diagnostics) {
  MESHSEAL_RETURN_IF_ERROR(CheckFileName(path));
  Document document;
  MESHSEAL_ASSIGN_OR_RETURN(std::unique_ptr<const SourceFile> file, SourceFile::Read(path));
  document.file = file.get();
  files.push_back(std::move(file));
  document.root = ReadYaml(*document.file, diagnostics);
  return document;
}

bool Is(const Document& document, DocumentKind kind, absl::string_view expected, Diagnostics& diagnostics) {
  if (!document.root.has_value()) return false;
  const std::optional<DocumentKind> found = KindOf(*document.root, diagnostics);
  if (!found.has_value()) return false;
  if (*found == kind) return true;
  diagnostics.Error(
      "document-kind", document.root->span(),
      absl::StrCat("this document is no ", std::string(expected), ": it has no key '", std::string(expected), "'"));
  return false;
}

}  // namespace meshseal::compiler
