#include "compiler/text/source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "schema/reason.h"
#include "schema/uninterrupted.h"

namespace meshseal::compiler {
namespace {

absl::Status RefuseErrno(absl::string_view path, absl::string_view what, int error) {
  return Refuse(Reason::kUsage,
                absl::StrCat(path, ": ", what, ": ", std::error_code(error, std::generic_category()).message()));
}

absl::Status RefuseSize(absl::string_view path) {
  return Refuse(Reason::kUsage, absl::StrCat(path, ": larger than ", kMaxSourceBytes, " bytes, the most that is read"));
}

}  // namespace

SourceFile::SourceFile(std::string path, std::string text) : path_(std::move(path)), text_(std::move(text)) {
  line_starts_.push_back(0);
  for (size_t i = 0; i < text_.size(); ++i) {
    if (text_[i] == '\n') line_starts_.push_back(static_cast<uint32_t>(i + 1));
  }
}

absl::StatusOr<std::unique_ptr<const SourceFile>> SourceFile::FromText(std::string path, std::string text) {
  if (text.size() > kMaxSourceBytes) return RefuseSize(path);
  return std::unique_ptr<const SourceFile>(new SourceFile(std::move(path), std::move(text)));
}

absl::StatusOr<std::unique_ptr<const SourceFile>> SourceFile::Read(std::string path) {
  if (path.find('\0') != std::string::npos) return RefuseErrno(path, "cannot be opened", EINVAL);
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  const int file = Uninterrupted([&] { return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); });
  if (file < 0) return RefuseErrno(path, "cannot be opened", errno);
  const absl::Cleanup close_file = [file] { close(file); };

  struct stat status = {};
  if (fstat(file, &status) != 0) return RefuseErrno(path, "cannot be read", errno);
  if (!S_ISREG(status.st_mode)) {
    return Refuse(Reason::kUsage, absl::StrCat(path, ": is not a regular file"));
  }
  if (static_cast<uint64_t>(status.st_size) > kMaxSourceBytes) return RefuseSize(path);

  // The file may change while it is read: what counts is what read() delivers.
  std::string text(static_cast<size_t>(status.st_size) + 1, '\0');
  size_t size = 0;
  while (true) {
    if (size == text.size()) text.resize(std::min(text.size() * 2, kMaxSourceBytes + 1));
    const ssize_t got = Uninterrupted([&] { return read(file, text.data() + size, text.size() - size); });
    if (got < 0) return RefuseErrno(path, "cannot be read", errno);
    if (got == 0) break;
    size += static_cast<size_t>(got);
    if (size > kMaxSourceBytes) return RefuseSize(path);
  }
  text.resize(size);
  return FromText(std::move(path), std::move(text));
}

absl::string_view SourceFile::base_name() const {
  const absl::string_view path = path_;
  const size_t slash = path.rfind('/');
  return slash == absl::string_view::npos ? path : path.substr(slash + 1);
}

absl::string_view SourceFile::Line(uint32_t line) const {
  if (line == 0 || line > line_starts_.size()) return "";
  const size_t begin = line_starts_[line - 1];
  if (line == line_starts_.size()) return absl::string_view(text_).substr(begin);
  size_t end = line_starts_[line] - size_t{1};  // the LF
  if (end > begin && text_[end - 1] == '\r') --end;
  return absl::string_view(text_).substr(begin, end - begin);
}

Span SourceFile::At(size_t offset, size_t length) const {
  offset = std::min(offset, text_.size());
  const auto next = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset);
  const size_t line = static_cast<size_t>(next - line_starts_.begin());
  const size_t column = offset - line_starts_[line - 1] + 1;
  return Span{this, static_cast<uint32_t>(line), static_cast<uint32_t>(column),
              static_cast<uint32_t>(std::min(length, text_.size() - offset))};
}

}  // namespace meshseal::compiler
