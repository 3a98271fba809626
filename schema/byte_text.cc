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

std::string PerSecondText(uint64_t rate, const char* unit) {
  constexpr std::array kPrefixes = {"", "k", "M", "G", "T", "P", "E"};
  double value = static_cast<double>(rate);
  size_t prefix = 0;
  while (value >= 1000 && prefix + 1 < kPrefixes.size()) {
    value /= 1000;
    ++prefix;
  }
  return FormatText("%.1f %s%s", value, kPrefixes[prefix], unit);
}

}  // namespace meshseal
