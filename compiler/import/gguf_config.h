// The metadata of a GGUF file as facts about a model.
#ifndef MESHSEAL_COMPILER_IMPORT_GGUF_CONFIG_H_
#define MESHSEAL_COMPILER_IMPORT_GGUF_CONFIG_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/import/model_facts.h"
#include "schema/gguf.h"

namespace meshseal::compiler {

// `place` names the checkpoint in messages; `file_name` becomes the model's name where the file has none. Refused
// (Reason::kImport): an unknown architecture, one without experts, a fact that the family needs and the file lacks, and
// values that the family does not have. Values of another type: weights.header, as GgufMetadata has it.
absl::StatusOr<ModelFacts> ReadGgufConfig(absl::string_view place, const GgufMetadata& metadata,
                                          absl::string_view file_name);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_IMPORT_GGUF_CONFIG_H_
