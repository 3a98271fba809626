#include "compiler/text/utf8.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace meshseal::compiler {

absl::string_view ShortenUtf8(absl::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  size_t end = max_bytes;
  for (int i = 0; i < 3 && end > 0 && (static_cast<uint8_t>(text[end]) & 0xc0) == 0x80; ++i) --end;
  return text.substr(0, end);
}

std::string Quoted(absl::string_view text, char quote) {
  constexpr size_t kMaxBytes = 60;
  const absl::string_view shown = ShortenUtf8(text, kMaxBytes);
  const absl::string_view mark(&quote, 1);
  return absl::StrCat(mark, shown, shown.size() < text.size() ? "..." : "", mark);
}

}  // namespace meshseal::compiler
