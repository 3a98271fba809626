// The text of one input file and places in it. Every message about a manifest points here.
#ifndef MESHSEAL_COMPILER_TEXT_SOURCE_H_
#define MESHSEAL_COMPILER_TEXT_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace meshseal::compiler {

class SourceFile;

// The largest text that is read, in bytes.
inline constexpr size_t kMaxSourceBytes = size_t{16} << 20;

// A place in a file. `line` and `column` count from 1; columns and `length` count bytes, not characters.
// A default Span is "no location"; a file with line 0 is "somewhere in this file".
struct Span {
  const SourceFile* file = nullptr;
  uint32_t line = 0;
  uint32_t column = 0;
  uint32_t length = 0;

  friend bool operator==(const Span&, const Span&) = default;
};

// A value and the place where a user wrote it.
template <class T>
struct Spanned {
  T value{};
  Span span;
};

// Immutable once made, hence safe to read from several threads. Spans point to it: it must outlive them.
class SourceFile {
 public:
  // `path` is what messages print. Refused with Reason::kUsage: more than kMaxSourceBytes.
  static absl::StatusOr<std::unique_ptr<const SourceFile>> FromText(std::string path, std::string text);
  // Reads a regular file. Refused with Reason::kUsage: it cannot be opened or read, is a folder, a pipe or a
  // device, or is larger than kMaxSourceBytes.
  static absl::StatusOr<std::unique_ptr<const SourceFile>> Read(std::string path);

  SourceFile(const SourceFile&) = delete;
  SourceFile& operator=(const SourceFile&) = delete;

  const std::string& path() const { return path_; }  // as the user named it
  absl::string_view base_name() const;               // what follows the last '/'
  const std::string& text() const { return text_; }  // all bytes, unchanged

  uint32_t line_count() const { return static_cast<uint32_t>(line_starts_.size()); }
  // Line `line` (from 1) without its line end (LF or CRLF); empty for a line that does not exist.
  absl::string_view Line(uint32_t line) const;
  // The span of `length` bytes from byte `offset`; an offset past the end means the end.
  Span At(size_t offset, size_t length) const;

 private:
  SourceFile(std::string path, std::string text);

  std::string path_;
  std::string text_;
  std::vector<uint32_t> line_starts_;  // byte offset of each line, ascending, the first is 0
};

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_TEXT_SOURCE_H_
