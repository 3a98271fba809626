// UTF-8, one code point at a time.
#ifndef MESHSEAL_COMPILER_TEXT_UTF8_H_
#define MESHSEAL_COMPILER_TEXT_UTF8_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace meshseal::compiler {

struct CodePoint {
  char32_t value = 0;
  size_t length = 0;  // bytes, 1 to 4
};

// The code point that `text` begins with; nothing where the bytes are not UTF-8 (RFC 3629: no overlong forms,
// no surrogates, nothing above U+10FFFF) or `text` is empty.
std::optional<CodePoint> FirstCodePoint(absl::string_view text);

// The longest start of `text` that has at most `max_bytes` bytes and splits no code point; where the bytes
// are not UTF-8 it may be up to 3 bytes shorter.
absl::string_view ShortenUtf8(absl::string_view text, size_t max_bytes);

// User text for a message: in `quote` marks, cut after 60 bytes.
std::string Quoted(absl::string_view text, char quote = '\'');

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_TEXT_UTF8_H_
