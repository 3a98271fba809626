// Strict reader of safetensors files (https://github.com/huggingface/safetensors, section "Format").
// A file is [N: u64 little-endian][header: N bytes of JSON][data]. Everything the format leaves open is
// refused: duplicate or unknown keys, holes, overlaps, trailing bytes, anything but plain whole numbers.
// Offsets and sizes are in bytes. Refusals carry a Reason (weights.*) and a text "FILE: tensor 'NAME': found,
// expected".
#ifndef MESHSEAL_SCHEMA_SAFETENSORS_H_
#define MESHSEAL_SCHEMA_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schema/dtype.h"

namespace meshseal {

// Limits. The header's and the integers' are the format's own, the others are ours.
inline constexpr uint64_t kSafetensorsMaxHeaderBytes = 100'000'000;
inline constexpr uint64_t kSafetensorsMaxTensors = 500'000;  // read in about a second
inline constexpr uint64_t kSafetensorsMaxRank = 8;
inline constexpr uint64_t kSafetensorsMaxMetadataBytes = 16'777'216;
inline constexpr uint64_t kSafetensorsMaxInteger = (uint64_t{1} << 48) - 1;

struct TensorEntry {
  std::string name;
  DType dtype = DType::kInvalid;
  std::vector<uint64_t> shape;  // slowest axis first; empty for a scalar
  uint64_t begin = 0;           // place in the file; no alignment is promised
  uint64_t end = 0;             // exclusive; end - begin is the size of `shape` elements of `dtype`
};

// Checks the header and returns its tensors sorted by name. `header` is the file's bytes [data_start -
// header.size(), data_start); `file_size` is the size of the whole file; `file` names it in messages. Reads
// nothing but its arguments.
absl::StatusOr<std::vector<TensorEntry>> ParseSafetensorsHeader(absl::string_view file, absl::string_view header,
                                                                uint64_t data_start, uint64_t file_size);

// An open file with a checked header. Holds the descriptor, so that names and bytes come from one file
// whatever happens to its path. Const members may be called from several threads at once.
class SafetensorsFile {
 public:
  // Only a regular file is opened; a symbolic link as the last component of `path` is not followed.
  static absl::StatusOr<SafetensorsFile> Open(const std::filesystem::path& path);

  SafetensorsFile(SafetensorsFile&& other) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&& other) noexcept;
  ~SafetensorsFile();

  // Sorted by name.
  absl::Span<const TensorEntry> entries() const { return entries_; }

  // The entry of that name; a refusal that names the nearest one otherwise. Lives as long as this object,
  // moved or not.
  absl::StatusOr<const TensorEntry*> Find(absl::string_view name) const;

  // Fills `out` from `offset` of the file. A file that has become shorter since Open is refused.
  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) const;

 private:
  SafetensorsFile(int descriptor, std::string file) : descriptor_(descriptor), file_(std::move(file)) {}

  int descriptor_;
  std::string file_;  // the path as given, for messages
  uint64_t size_ = 0;
  std::vector<TensorEntry> entries_;
};

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_SAFETENSORS_H_
