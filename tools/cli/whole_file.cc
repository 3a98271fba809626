#include "tools/cli/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "schema/reason.h"
#include "schema/uninterrupted.h"
#include "schema/within_memory.h"

namespace meshseal::tools {
namespace {

absl::Status CannotWrite(const std::filesystem::path& path, int error) {
  return Refuse(Reason::kUsage,
                absl::StrCat(path.string(), ": cannot be written: ", std::generic_category().message(error)));
}

// Returns an errno, 0 when all was written.
int WriteAll(int descriptor, absl::Span<const absl::string_view> pieces) {
  for (absl::string_view piece : pieces) {
    while (!piece.empty()) {
      const ssize_t put = Uninterrupted([&] { return ::write(descriptor, piece.data(), piece.size()); });
      if (put < 0) return errno;
      piece.remove_prefix(static_cast<size_t>(put));
    }
  }
  return 0;
}

// Another name in the folder of `path`, opened for writing.
int OpenBeside(const std::filesystem::path& path, mode_t mode, std::string* name) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    *name = absl::StrCat(path.string(), ".", ::getpid(), ".", attempt, ".partial");
    const int descriptor = Uninterrupted(
        [&] { return ::open(name->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode); });
    if (descriptor >= 0 || errno != EEXIST) return descriptor;
  }
  return -1;
}

}  // namespace

absl::Status WriteWholeFile(const std::filesystem::path& path, absl::Span<const absl::string_view> pieces,
                            FileKind kind) {
  return WithinMemory([&]() -> absl::Status {
    if (path == "-") {
      const int error = WriteAll(STDOUT_FILENO, pieces);
      return error == 0 ? absl::OkStatus() : CannotWrite("standard output", error);
    }
    struct stat info = {};
    // A rename would put a file in the place of a device or a link.
    if (::lstat(path.c_str(), &info) != 0) {
      if (errno != ENOENT) return CannotWrite(path, errno);
    } else if (!S_ISREG(info.st_mode)) {
      return Refuse(Reason::kUsage, absl::StrCat(path.string(), ": exists and is not a regular file"));
    }
    std::string partial;
    const int descriptor = OpenBeside(path, kind == FileKind::kSecret ? 0600 : 0666, &partial);
    if (descriptor < 0) return CannotWrite(path, errno);
    const absl::Cleanup closer = [descriptor] { ::close(descriptor); };
    int error = WriteAll(descriptor, pieces);
    if (error == 0 && Uninterrupted([&] { return ::fsync(descriptor); }) != 0) error = errno;
    const unsigned flags = kind == FileKind::kOutput ? 0 : RENAME_NOREPLACE;
    if (error == 0 && ::renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, path.c_str(), flags) != 0) error = errno;
    if (error == 0) return absl::OkStatus();
    ::unlink(partial.c_str());
    return CannotWrite(path, error);
  });
}

}  // namespace meshseal::tools
