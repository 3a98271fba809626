#include "schema/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "schema/uninterrupted.h"
#include "schema/within_memory.h"

namespace meshseal {
namespace {

absl::Status CannotRead(const std::filesystem::path& path, int error) {
  return Refuse(Reason::kUsage, absl::StrCat(path.string(), ": ", std::generic_category().message(error)));
}

}  // namespace

absl::StatusOr<std::string> ReadSmallFile(const std::filesystem::path& path, absl::string_view what, uint64_t max_bytes,
                                          Reason too_large) {
  return WithinMemory([&]() -> absl::StatusOr<std::string> {
    // O_NONBLOCK: opening a FIFO must not wait for a writer.
    const int descriptor =
        Uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK); });
    if (descriptor < 0 && errno == ELOOP) {
      return Refuse(Reason::kUsage, absl::StrCat(path.string(), ": is a symbolic link, expected a regular file"));
    }
    if (descriptor < 0) return CannotRead(path, errno);
    const absl::Cleanup closer = [descriptor] { ::close(descriptor); };
    struct stat info = {};
    if (::fstat(descriptor, &info) != 0) return CannotRead(path, errno);
    if (!S_ISREG(info.st_mode)) return Refuse(Reason::kUsage, absl::StrCat(path.string(), ": not a regular file"));
    const auto size = static_cast<uint64_t>(info.st_size);
    if (size > max_bytes) {
      return Refuse(too_large, absl::StrCat(path.string(), ": ", size, " bytes, ", what, " has at most ", max_bytes));
    }
    std::string bytes(size, '\0');
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t got = Uninterrupted([&] { return ::read(descriptor, bytes.data() + done, bytes.size() - done); });
      if (got < 0) return CannotRead(path, errno);
      if (got == 0) return Refuse(Reason::kUsage, absl::StrCat(path.string(), ": shrank while it was read"));
      done += static_cast<size_t>(got);
    }
    return bytes;
  });
}

}  // namespace meshseal
