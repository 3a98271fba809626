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
#include "schema/regular_file.h"
#include "schema/tensor_entry.h"

namespace meshseal {

// Limits. The header's and the integers' are the format's own, the others are ours.
inline constexpr uint64_t kSafetensorsMaxHeaderBytes = 100'000'000;
inline constexpr uint64_t kSafetensorsMaxTensors = 500'000;  // read in about a second
inline constexpr uint64_t kSafetensorsMaxRank = 8;
inline constexpr uint64_t kSafetensorsMaxMetadataBytes = 16'777'216;
inline constexpr uint64_t kSafetensorsMaxInteger = (uint64_t{1} << 48) - 1;

// Checks the header and returns its tensors sorted by name. `header` is the file's bytes [data_start -
// header.size(), data_start); `file_size` is the size of the whole file; `file` names it in messages. Reads
// nothing but its arguments.
absl::StatusOr<std::vector<TensorEntry>> ParseSafetensorsHeader(absl::string_view file, absl::string_view header,
                                                                uint64_t data_start, uint64_t file_size);

// An open file with a checked header. Const members may be called from several threads at once.
class SafetensorsFile {
 public:
  // Opens as RegularFile::Open does.
  static absl::StatusOr<SafetensorsFile> Open(const std::filesystem::path& path);

  // Sorted by name.
  absl::Span<const TensorEntry> entries() const { return entries_; }

  // The entry of that name; a refusal that names the nearest one otherwise. Lives as long as this object,
  // moved or not.
  absl::StatusOr<const TensorEntry*> Find(absl::string_view name) const;

  // Fills `out` from `offset` of the file. A file that has become shorter since Open is refused.
  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) const { return file_.Read(offset, out); }

  // The file alone; nothing of this object may be used afterwards but its entries.
  RegularFile file() && { return std::move(file_); }

 private:
  SafetensorsFile(RegularFile file, std::vector<TensorEntry> entries)
      : file_(std::move(file)), entries_(std::move(entries)) {}

  RegularFile file_;
  std::vector<TensorEntry> entries_;
};

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_SAFETENSORS_H_
