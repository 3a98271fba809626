#include "schema/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "schema/reason.h"
#include "schema/status_macros.h"
#include "schema/uninterrupted.h"

namespace meshseal {
namespace {

// What a clone without large-file support leaves in a file's place begins with this.
constexpr absl::string_view kLfsPointer = "version https://git-lfs.github.com/spec/v1";

absl::Status RefuseOpen(absl::string_view path, int error) {
  if (error == ELOOP) {
    return Refuse(Reason::kWeightsFile, absl::StrCat(path, ": is a symbolic link, expected a regular file"));
  }
  return Refuse(Reason::kWeightsFile,
                absl::StrCat(path, ": cannot be opened: ", std::generic_category().message(error)));
}

absl::string_view KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "not a file";
}

}  // namespace

absl::StatusOr<RegularFile> RegularFile::Open(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  RegularFile opened(-1, path.string());
  opened.descriptor_ =
      Uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); });
  if (opened.descriptor_ < 0) return RefuseOpen(opened.path_, errno);
  struct stat info = {};
  if (::fstat(opened.descriptor_, &info) != 0) return RefuseOpen(opened.path_, errno);
  if (!S_ISREG(info.st_mode)) {
    return Refuse(Reason::kWeightsFile,
                  absl::StrCat(opened.path_, ": is ", KindOf(info.st_mode), ", expected a regular file"));
  }
  opened.size_ = static_cast<uint64_t>(info.st_size);

  std::array<std::byte, kLfsPointer.size()> start = {};
  if (opened.size_ < start.size()) return opened;
  MESHSEAL_RETURN_IF_ERROR(opened.Read(0, absl::MakeSpan(start)));
  const bool pointer = std::equal(start.begin(), start.end(), kLfsPointer.begin(),
                                  [](std::byte byte, char c) { return byte == static_cast<std::byte>(c); });
  if (pointer) {
    return Refuse(Reason::kWeightsLfsPointer,
                  absl::StrCat(opened.path_, ": is a Git LFS pointer, not the file (run 'git lfs pull')"));
  }
  return opened;
}

RegularFile::RegularFile(RegularFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)), size_(other.size_) {}

RegularFile& RegularFile::operator=(RegularFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
  std::swap(size_, other.size_);
  return *this;
}

RegularFile::~RegularFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

absl::Status RegularFile::Read(uint64_t offset, absl::Span<std::byte> out) const {
  if (offset > size_ || out.size() > size_ - offset) {
    return Refuse(Reason::kWeightsTruncated, absl::StrCat(path_, ": ", out.size(), " bytes asked for at byte ", offset,
                                                          ", but the file has ", size_, " bytes"));
  }
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = Uninterrupted(
        [&] { return ::pread(descriptor_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done)); });
    if (got < 0) {
      return Refuse(Reason::kWeightsFile, absl::StrCat(path_, ": cannot be read at byte ", offset + done, ": ",
                                                       std::generic_category().message(errno)));
    }
    if (got == 0) {
      return Refuse(Reason::kWeightsTruncated, absl::StrCat(path_, ": ends at byte ", offset + done, ", but had ",
                                                            size_, " bytes when it was opened"));
    }
    done += static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

}  // namespace meshseal
