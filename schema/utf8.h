// UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF.
#ifndef MESHSEAL_SCHEMA_UTF8_H_
#define MESHSEAL_SCHEMA_UTF8_H_

#include <cstddef>
#include <optional>

#include "absl/strings/string_view.h"

namespace meshseal {

struct CodePoint {
  char32_t value = 0;
  size_t length = 0;  // bytes, 1 to 4
};

// The code point that `text` begins with; nothing where the bytes are not UTF-8 or
// `text` is empty.
std::optional<CodePoint> FirstCodePoint(absl::string_view text);

// Whether `text` is UTF-8 from its start to its end.
bool IsUtf8(absl::string_view text);

// Whether `text` has a control character of ASCII.
bool HasControlCharacter(absl::string_view text);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_UTF8_H_
