// A checkpoint's own configuration and tensor headers -> a model manifest as text.
#ifndef MESHSEAL_COMPILER_IMPORT_IMPORT_MODEL_H_
#define MESHSEAL_COMPILER_IMPORT_IMPORT_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/text/diagnostic.h"
#include "compiler/text/source.h"

namespace meshseal::compiler {

// What came out. The text was read back through the readers and rules that every manifest passes, and was compared with
// the files' headers where there are some; what they refuse is in `diagnostics`, which point into `file`.
struct ImportResult {
  std::string text;
  std::vector<std::string> notes;  // facts that no file told, a line each
  std::unique_ptr<const SourceFile> file;
  Diagnostics diagnostics;
};

// `folder` holds config.json, hf_quant_config.json where there is one, and safetensors files. With `config_only` no
// tensor file is opened: dtypes follow from the configuration and the family, names from the family, checked against
// model.safetensors.index.json where there is one.
// Reasons: kImport; kUsage for a configuration that cannot be opened; weights.* for tensor files.
absl::StatusOr<ImportResult> ImportHf(const std::string& folder, bool config_only);

// One GGUF file, or parts of one split set; the whole set is read.
absl::StatusOr<ImportResult> ImportGguf(const std::vector<std::string>& files);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_IMPORT_IMPORT_MODEL_H_
