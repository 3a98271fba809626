// What a checkpoint holds: its tensors and the files they lie in, from headers alone. Every file passes its strict
// reader; an index or a split set must agree with the files in both directions.
#ifndef MESHSEAL_SCHEMA_CHECKPOINT_LISTING_H_
#define MESHSEAL_SCHEMA_CHECKPOINT_LISTING_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schema/dtype.h"
#include "schema/gguf.h"
#include "schema/regular_file.h"
#include "schema/tensor_entry.h"
#include "schema/terms.h"

namespace meshseal {

inline constexpr uint64_t kMaxListedTensors = 500'000;  // over all files

struct ListedTensor {
  std::string name;
  DType dtype = DType::kInvalid;
  std::vector<uint64_t> shape;  // slowest axis first
  uint64_t begin = 0;           // place in its file
  uint64_t bytes = 0;           // as stored
  uint32_t file = 0;            // of files()
};

class CheckpointListing {
 public:
  // `path` is a folder with model.safetensors, with model.safetensors.index.json and its shards, with one GGUF file or
  // with one split set of them (NAME-00001-of-0000N.gguf); or it is a .gguf file, where any part of a split set stands
  // for the whole set. A folder with more than one of these, or with none, is refused. Files are opened one after the
  // other; symbolic links are not followed to them. They are closed again, or moved to the end of `opened` in the order
  // of files(), so that their bytes come from what was listed. Reasons: weights.* and those of the readers.
  static absl::StatusOr<CheckpointListing> Open(const std::filesystem::path& path,
                                                std::vector<RegularFile>* opened = nullptr);

  WeightSource source() const { return source_; }  // kSafetensors or kGguf

  // Base names, all in one folder: the split set in its order, shards sorted.
  const std::vector<std::string>& files() const { return files_; }

  // Sorted by name, unique.
  absl::Span<const ListedTensor> tensors() const { return tensors_; }
  // Null when absent.
  const ListedTensor* Find(absl::string_view name) const;

  // Of the first GGUF file, where a split set has the model's; null for safetensors.
  const GgufMetadata* metadata() const { return metadata_.has_value() ? &*metadata_ : nullptr; }

 private:
  explicit CheckpointListing(std::vector<RegularFile>* opened) : opened_(opened) {}

  absl::Status ReadSafetensors(const std::filesystem::path& path);
  absl::Status ReadShards(const std::filesystem::path& path);
  absl::Status ReadGguf(const std::filesystem::path& path);
  absl::Status ReadSplitSet(const std::filesystem::path& path);
  // Adds the tensors of the file last added to files_, and keeps or closes it.
  absl::Status Add(absl::Span<const TensorEntry> entries, RegularFile file);
  // Sorts the tensors; refuses one that lies in two files of `folder`.
  absl::Status Sort(const std::filesystem::path& folder);

  WeightSource source_ = WeightSource::kInvalid;
  std::vector<std::string> files_;
  std::vector<ListedTensor> tensors_;
  std::optional<GgufMetadata> metadata_;
  std::vector<RegularFile>* opened_;  // while it is made; null otherwise
};

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_CHECKPOINT_LISTING_H_
