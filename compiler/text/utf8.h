// User text for messages, cut between code points.
#ifndef MESHSEAL_COMPILER_TEXT_UTF8_H_
#define MESHSEAL_COMPILER_TEXT_UTF8_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace meshseal::compiler {

// The longest start of `text` that has at most `max_bytes` bytes and splits no code point; where the bytes
// are not UTF-8 it may be up to 3 bytes shorter.
absl::string_view ShortenUtf8(absl::string_view text, size_t max_bytes);

// User text for a message: in `quote` marks, cut after 60 bytes.
std::string Quoted(absl::string_view text, char quote = '\'');

}  // namespace meshseal::compiler

#endif  // MESHSEAL_COMPILER_TEXT_UTF8_H_
