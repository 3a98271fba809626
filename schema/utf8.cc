#include "schema/utf8.h"

#include <algorithm>
#include <cstdint>

namespace meshseal {

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

bool IsUtf8(absl::string_view text) {
  while (!text.empty()) {
    const std::optional<CodePoint> point = FirstCodePoint(text);
    if (!point.has_value()) return false;
    text.remove_prefix(point->length);
  }
  return true;
}

bool HasControlCharacter(absl::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

}  // namespace meshseal
