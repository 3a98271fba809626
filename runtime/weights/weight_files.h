// The checkpoint of a folder, held against a plan before a byte of weights is read.
#ifndef MESHSEAL_RUNTIME_WEIGHTS_WEIGHT_FILES_H_
#define MESHSEAL_RUNTIME_WEIGHTS_WEIGHT_FILES_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "schema/plan.h"
#include "schema/safetensors.h"
#include "schema/sealed_plan.h"

namespace meshseal::runtime {

// The sizes of a tensor's axes, in the file's order.
std::vector<uint64_t> ShapeOf(const Plan& plan, const LayerClass& layer_class, const TensorClass& tensor);

// Move-only. Const members may be called from several threads at once.
class WeightFiles {
 public:
  // Opens FOLDER/model.safetensors and checks its header: every tensor that a role of the plan reads is there
  // with the plan's dtype and shape, and every other tensor is covered by one of the plan's ignored patterns.
  // Reasons: those of SafetensorsFile, kWeightsTensor, kNotBuilt for a checkpoint in shards.
  static absl::StatusOr<WeightFiles> Open(const SealedPlan& plan, const std::filesystem::path& folder);

  // Columns [first_column, first_column + columns) of rows [first_row, first_row + rows) of a tensor with two
  // axes, or with one, which is a row; row by row without gaps into `out`, whose size is theirs. `layer` and `expert`
  // complete the name.
  struct Block {
    uint64_t first_row = 0;
    uint64_t rows = 0;
    uint64_t first_column = 0;
    uint64_t columns = 0;
  };
  absl::Status Read(const TensorClass& tensor, uint32_t layer, uint32_t expert, const Block& block,
                    absl::Span<std::byte> out) const;

 private:
  WeightFiles(SafetensorsFile file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}

  // What the plan says of a tensor, against the header.
  absl::StatusOr<const TensorEntry*> CheckedEntry(const Plan& plan, const LayerClass& layer_class,
                                                  const TensorClass& tensor, uint32_t layer, uint32_t expert) const;

  SafetensorsFile file_;
  std::string path_;
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_WEIGHTS_WEIGHT_FILES_H_
