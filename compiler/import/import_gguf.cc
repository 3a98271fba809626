#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/import/bind_tensors.h"
#include "compiler/import/finish_import.h"
#include "compiler/import/gguf_config.h"
#include "compiler/import/import_model.h"
#include "schema/checkpoint_listing.h"
#include "schema/quoted_name.h"
#include "schema/reason.h"
#include "schema/status_macros.h"
#include "schema/within_memory.h"

namespace meshseal::compiler {
namespace {

// The file's name without its ending and, of a part of a split set, without its number.
std::string StemOf(const std::string& file, size_t parts) {
  std::string stem = std::filesystem::path(file).stem().string();
  constexpr size_t kNumberLength = sizeof("-00001-of-00002") - 1;
  if (parts > 1 && stem.size() > kNumberLength) stem.resize(stem.size() - kNumberLength);
  return stem;
}

}  // namespace

absl::StatusOr<ImportResult> ImportGguf(const std::vector<std::string>& files) {
  return WithinMemory([&]() -> absl::StatusOr<ImportResult> {
    if (files.empty()) return Refuse(Reason::kUsage, "expected a GGUF file");
    MESHSEAL_ASSIGN_OR_RETURN(const CheckpointListing listing, CheckpointListing::Open(files[0]));
    if (listing.metadata() == nullptr) {
      return Refuse(Reason::kImport, absl::StrCat(files[0], ": is no GGUF file; `import hf` reads safetensors"));
    }
    const auto folder_of = [](const std::string& file) {
      std::error_code failed;
      return std::filesystem::absolute(file, failed).lexically_normal().parent_path();
    };
    for (const std::string& file : files) {
      const std::string name = std::filesystem::path(file).filename().string();
      const bool is_part = std::find(listing.files().begin(), listing.files().end(), name) != listing.files().end();
      if (file == files[0] || (is_part && folder_of(file) == folder_of(files[0]))) continue;
      return Refuse(Reason::kImport, absl::StrCat(file, ": is no part of the set of ", QuotedName(listing.files()[0]),
                                                  " in its folder"));
    }
    const std::string stem = StemOf(listing.files()[0], listing.files().size());
    MESHSEAL_ASSIGN_OR_RETURN(ModelFacts facts, ReadGgufConfig(files[0], *listing.metadata(), stem));
    TensorNames names;
    names.place = files[0];
    names.listing = &listing;
    MESHSEAL_RETURN_IF_ERROR(BindTensors(names, std::nullopt, facts));
    return FinishImport(facts, listing.files()[0], &listing);
  });
}

}  // namespace meshseal::compiler
