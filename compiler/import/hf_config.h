// A Hugging Face config.json as facts about a model.
#ifndef MESHSEAL_COMPILER_IMPORT_HF_CONFIG_H_
#define MESHSEAL_COMPILER_IMPORT_HF_CONFIG_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/import/config_fields.h"
#include "compiler/import/model_facts.h"

namespace meshseal::compiler {

// `config` is the whole document; `name` becomes the model's name. Refused (Reason::kImport): an unknown model_type, a
// fact that the family needs and the document lacks, and fields that change the result in a way the family does not
// know.
absl::StatusOr<ModelFacts> ReadHfConfig(const ConfigFields& config, absl::string_view name);

// The map of the language model inside `config`: `config` itself, or the family's text_config.
absl::StatusOr<ConfigFields> TextConfig(const ConfigFields& config, const Family& family);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_IMPORT_HF_CONFIG_H_
