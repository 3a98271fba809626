// What a checkpoint's configuration says of how its matrices are stored: quantization_config of config.json, or
// hf_quant_config.json beside it. Where the files' headers are read they decide; this then only gives the sizes of
// scale blocks.
#ifndef MESHSEAL_COMPILER_IMPORT_QUANTIZATION_H_
#define MESHSEAL_COMPILER_IMPORT_QUANTIZATION_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/import/config_fields.h"
#include "compiler/import/families.h"
#include "compiler/manifest/manifest.h"

namespace meshseal::compiler {

// How one matrix is stored.
struct StoredForm {
  Storage storage = Storage::kPlain;
  bool input_scale = false;  // nvfp4, fp8: a scale of the activations lies beside it
  friend bool operator==(const StoredForm&, const StoredForm&) = default;
};

class Quantization {
 public:
  // `config` is the whole config.json, `hf_quant` the other file where there is one. Refused (Reason::kImport): a
  // method, algorithm or format that is not known, by its name, and two files that contradict each other.
  static absl::StatusOr<Quantization> Read(const Family& family, const ConfigFields& config, const ConfigFields& text,
                                           const std::optional<ConfigFields>& hf_quant);

  // Of the matrix whose tensor is called `tensor`; `expert` for those of routed experts.
  StoredForm FormOf(absl::string_view tensor, bool expert) const;

  // Whether a list names single experts, so that they may be stored in different ways.
  bool TellsExpertsApart() const;

  // Rows and columns that share a scale, of Storage::kFp8Block; nothing where the configuration has none.
  const std::optional<ScaleBlock>& fp8_block() const { return fp8_block_; }
  // The config.json, for messages.
  const std::string& config_file() const { return config_file_; }
  // Where it was said, for messages: "FILE: quantization_config"; the file alone where there is none.
  const std::string& place() const { return place_; }

 private:
  absl::Status ReadMethod(const ConfigFields& quantization);
  absl::Status ReadModelopt(const ConfigFields& quantization, absl::string_view excluded_key);

  std::string config_file_;
  std::string place_;
  StoredForm all_;                                         // of every matrix that nothing else is said of
  std::optional<StoredForm> experts_;                      // of routed experts, where they differ
  std::vector<std::pair<std::string, StoredForm>> named_;  // modules by name
  bool only_named_ = false;                                // whether the others are plain
  std::vector<std::string> excluded_;                      // patterns of plain modules
  std::optional<ScaleBlock> fp8_block_;
};

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_IMPORT_QUANTIZATION_H_
