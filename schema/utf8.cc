#include "schema/utf8.h"

#include <cstddef>
#include <cstdint>

namespace meshseal {

bool IsUtf8(absl::string_view bytes) {
  size_t i = 0;
  while (i < bytes.size()) {
    const auto lead = static_cast<uint8_t>(bytes[i]);
    size_t more = 0;
    uint32_t point = 0;
    uint32_t smallest = 0;
    if (lead < 0x80) {
      ++i;
      continue;
    }
    if ((lead & 0xe0) == 0xc0) {
      more = 1;
      point = lead & 0x1fu;
      smallest = 0x80;
    } else if ((lead & 0xf0) == 0xe0) {
      more = 2;
      point = lead & 0x0fu;
      smallest = 0x800;
    } else if ((lead & 0xf8) == 0xf0) {
      more = 3;
      point = lead & 0x07u;
      smallest = 0x10000;
    } else {
      return false;
    }
    if (bytes.size() - i <= more) return false;
    for (size_t j = 1; j <= more; ++j) {
      const auto next = static_cast<uint8_t>(bytes[i + j]);
      if ((next & 0xc0) != 0x80) return false;
      point = (point << 6) | (next & 0x3fu);
    }
    if (point < smallest || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) return false;
    i += more + 1;
  }
  return true;
}

}  // namespace meshseal
