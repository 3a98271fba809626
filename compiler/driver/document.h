// Documents as the driver opens them.
#ifndef MESHSEAL_COMPILER_DRIVER_DOCUMENT_H_
#define MESHSEAL_COMPILER_DRIVER_DOCUMENT_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/manifest/read_manifest.h"
#include "compiler/text/diagnostic.h"
#include "compiler/text/source.h"
#include "compiler/yaml/yaml.h"

namespace meshseal::compiler {

// Diagnostics point into them.
using SourceFiles = std::vector<std::unique_ptr<const SourceFile>>;

// A document's file and tree; no tree when the YAML was refused.
struct Document {
  const SourceFile* file = nullptr;
  std::optional<YamlNode> root;
};

// The base names of documents go into the plan, where that of the deployment, without its ending, is the plan's name.
// Reason kUsage.
absl::Status CheckFileName(const std::string& path);

// Reason kUsage for a file that cannot be opened or named in a plan.
absl::StatusOr<Document> OpenDocument(const std::string& path, SourceFiles& files, Diagnostics& diagnostics);

// Whether the document is of `kind`; reports it when it is of another.
bool Is(const Document& document, DocumentKind kind, absl::string_view expected, Diagnostics& diagnostics);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_DRIVER_DOCUMENT_H_
