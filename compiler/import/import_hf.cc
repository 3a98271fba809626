#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/import/bind_tensors.h"
#include "compiler/import/config_fields.h"
#include "compiler/import/finish_import.h"
#include "compiler/import/hf_config.h"
#include "compiler/import/import_model.h"
#include "compiler/import/quantization.h"
#include "schema/checkpoint_listing.h"
#include "schema/reason.h"
#include "schema/safetensors_index.h"
#include "schema/status_macros.h"
#include "schema/within_memory.h"

namespace meshseal::compiler {
namespace {

absl::StatusOr<ConfigFields> ReadJson(const std::filesystem::path& path) {
  MESHSEAL_ASSIGN_OR_RETURN(const std::unique_ptr<const SourceFile> file, SourceFile::Read(path.string()));
  return ConfigFields::Parse(file->path(), file->text());
}

bool Exists(const std::filesystem::path& path) {
  std::error_code failed;
  return std::filesystem::exists(std::filesystem::symlink_status(path, failed));
}

// The last component of a folder's path, whatever way it is written.
std::string BaseName(const std::string& folder) {
  std::error_code failed;
  std::filesystem::path path = std::filesystem::absolute(folder, failed).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return path.filename().string();
}

}  // namespace

absl::StatusOr<ImportResult> ImportHf(const std::string& folder, bool config_only) {
  return WithinMemory([&]() -> absl::StatusOr<ImportResult> {
    const std::filesystem::path path(folder);
    MESHSEAL_ASSIGN_OR_RETURN(const ConfigFields config, ReadJson(path / "config.json"));
    const std::string base = BaseName(folder);
    MESHSEAL_ASSIGN_OR_RETURN(ModelFacts facts, ReadHfConfig(config, ModelNameOf(base)));
    MESHSEAL_ASSIGN_OR_RETURN(const ConfigFields text, TextConfig(config, *facts.family));
    std::optional<ConfigFields> hf_quant;
    if (Exists(path / "hf_quant_config.json")) {
      MESHSEAL_ASSIGN_OR_RETURN(hf_quant, ReadJson(path / "hf_quant_config.json"));
    }
    MESHSEAL_ASSIGN_OR_RETURN(const std::optional<Quantization> quantization,
                              Quantization::Read(*facts.family, config, text, hf_quant));
    TensorNames names;
    names.place = folder;
    std::optional<CheckpointListing> listing;
    std::optional<SafetensorsIndex> index;
    if (!config_only) {
      MESHSEAL_ASSIGN_OR_RETURN(listing, CheckpointListing::Open(path));
      if (listing->source() != WeightSource::kSafetensors) {
        return Refuse(Reason::kImport, absl::StrCat(folder, ": holds a GGUF file; `import gguf` reads those"));
      }
      names.listing = &*listing;
    } else {
      if (Exists(path / std::string(kSafetensorsIndexName))) {
        MESHSEAL_ASSIGN_OR_RETURN(index, ReadSafetensorsIndex(path / std::string(kSafetensorsIndexName)));
        names.index = &*index;
      }
      facts.assumed = {"other_weights, the size of what is not MoE, is left at 0B",
                       "dtypes follow from the configuration and the family",
                       index.has_value() ? "shapes are the family's" : "names and shapes are the family's"};
      if (facts.family->mtp_from_files && !index.has_value()) {
        facts.assumed.emplace_back("mtp_layers is left at 0");
      }
    }
    MESHSEAL_RETURN_IF_ERROR(BindTensors(names, quantization, facts));
    return FinishImport(facts, base, names.listing);
  });
}

}  // namespace meshseal::compiler
