// What a checkpoint's configuration says of its model, before any tensor is looked at.
#ifndef MESHSEAL_COMPILER_IMPORT_MODEL_FACTS_H_
#define MESHSEAL_COMPILER_IMPORT_MODEL_FACTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/import/families.h"
#include "compiler/manifest/manifest.h"

namespace meshseal::compiler {

// The largest size a manifest may state.
inline constexpr uint64_t kMaxSize = uint64_t{1} << 20;
// Far above any model, and low enough that looking at each layer and each expert takes about a second.
inline constexpr uint64_t kMostImportedLayers = uint64_t{1} << 10;
inline constexpr uint64_t kMostImportedExperts = uint64_t{1} << 16;  // of all layers together, where each is looked at
inline constexpr uint64_t kMostTokenIds = uint64_t{1} << 24;
inline constexpr uint64_t kMostImportedMtpLayers = 64;

struct ModelFacts {
  const Family* family = nullptr;
  // Everything but weights; one group without tensors, whose spans are empty.
  Manifest manifest;
  std::optional<DType> dtype;  // the model's
  // Whether the configuration says how many extra blocks there are; the files decide where it does not.
  bool mtp_stated = false;
  // Whether manifest.moe_layers is still to be read from the tensors.
  bool layers_from_tensors = false;
  // Facts that no file told, for the head of what is written.
  std::vector<std::string> assumed;
};

// The facts that hold for every import: one collective, no residual, spelled as manifests do.
Manifest EmptyImport(absl::string_view name, absl::string_view family);

// A file or folder name as a model's name: lower case, [a-z0-9.-]; "model" when nothing is left.
std::string ModelNameOf(absl::string_view text);

// Numbers of layers, ascending, as ranges that do not touch.
std::vector<LayerRange> RangesOf(const std::vector<uint32_t>& layers);
// The other way round.
std::vector<uint32_t> LayersOf(const std::vector<LayerRange>& ranges);

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_IMPORT_MODEL_FACTS_H_
