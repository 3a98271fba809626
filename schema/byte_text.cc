#include "schema/byte_text.h"

#include <array>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "schema/format_text.h"

namespace meshseal {

std::string ByteText(uint64_t bytes) {
  constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return FormatText("%.1f %s", value, kUnits[unit]);
}

}  // namespace meshseal
