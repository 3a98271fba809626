// A regular file of a checkpoint, opened for reading.
#ifndef MESHSEAL_SCHEMA_REGULAR_FILE_H_
#define MESHSEAL_SCHEMA_REGULAR_FILE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace meshseal {

// Holds the descriptor, so that all bytes come from one file whatever happens to its path. Const members may be called
// from several threads at once. Offsets and sizes are in bytes.
class RegularFile {
 public:
  // Only a regular file is opened; a symbolic link as the last component of `path` is not followed, and a FIFO is not
  // waited for. Reasons: kWeightsFile, kWeightsLfsPointer.
  static absl::StatusOr<RegularFile> Open(const std::filesystem::path& path);

  RegularFile(RegularFile&& other) noexcept;
  RegularFile& operator=(RegularFile&& other) noexcept;
  ~RegularFile();

  // The path as given, for messages.
  const std::string& path() const { return path_; }
  // As it was when the file was opened.
  uint64_t size() const { return size_; }

  // Fills `out` from `offset` on. Reasons: kWeightsFile, kWeightsTruncated (also for a file that has become shorter).
  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) const;

 private:
  RegularFile(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}

  int descriptor_;
  std::string path_;
  uint64_t size_ = 0;
};

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_REGULAR_FILE_H_
