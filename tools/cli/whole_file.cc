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
      const ssize_t put = ::write(descriptor, piece.data(), piece.size());
      if (put < 0) {
        if (errno == EINTR) continue;
        return errno;
      }
      piece.remove_prefix(static_cast<size_t>(put));
    }
  }
  return 0;
}

// Another name in the folder of `path`, opened for writing; its mode follows the umask.
int OpenBeside(const std::filesystem::path& path, std::string* name) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    *name = absl::StrCat(path.string(), ".", ::getpid(), ".", attempt, ".partial");
    const int descriptor = ::open(name->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (descriptor >= 0 || errno != EEXIST) return descriptor;
  }
  return -1;
}

}  // namespace

absl::Status WriteWholeFile(const std::filesystem::path& path, absl::Span<const absl::string_view> pieces) {
  if (path == "-") {
    const int error = WriteAll(STDOUT_FILENO, pieces);
    return error == 0 ? absl::OkStatus() : CannotWrite("standard output", error);
  }
  struct stat info = {};
  if (::lstat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    // A rename would put a file in the place of a device or a link.
    return Refuse(Reason::kUsage, absl::StrCat(path.string(), ": exists and is not a regular file"));
  }
  std::string partial;
  const int descriptor = OpenBeside(path, &partial);
  if (descriptor < 0) return CannotWrite(path, errno);
  const absl::Cleanup closer = [descriptor] { ::close(descriptor); };
  int error = WriteAll(descriptor, pieces);
  if (error == 0 && ::fsync(descriptor) != 0) error = errno;
  if (error == 0 && ::rename(partial.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return absl::OkStatus();
  ::unlink(partial.c_str());
  return CannotWrite(path, error);
}

}  // namespace meshseal::tools
