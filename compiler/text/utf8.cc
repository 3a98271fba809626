#include "compiler/text/utf8.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace meshseal::compiler {

std::optional<CodePoint> FirstCodePoint(absl::string_view text) {
  if (text.empty()) return std::nullopt;
  const uint32_t lead = static_cast<uint8_t>(text[0]);
  if (lead < 0x80) return CodePoint{lead, 1};
  size_t length = 0;
  uint32_t value = 0;
  uint32_t least = 0;  // below it the form is overlong
  if ((lead & 0xe0) == 0xc0) {
    length = 2, value = lead & 0x1f, least = 0x80;
  } else if ((lead & 0xf0) == 0xe0) {
    length = 3, value = lead & 0x0f, least = 0x800;
  } else if ((lead & 0xf8) == 0xf0) {
    length = 4, value = lead & 0x07, least = 0x10000;
  } else {
    return std::nullopt;
  }
  if (text.size() < length) return std::nullopt;
  for (size_t i = 1; i < length; ++i) {
    const uint32_t byte = static_cast<uint8_t>(text[i]);
    if ((byte & 0xc0) != 0x80) return std::nullopt;
    value = (value << 6) | (byte & 0x3f);
  }
  const bool surrogate = value >= 0xd800 && value <= 0xdfff;
  if (value < least || value > 0x10ffff || surrogate) return std::nullopt;
  return CodePoint{value, length};
}

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
