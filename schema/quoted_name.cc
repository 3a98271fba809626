#include "schema/quoted_name.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace meshseal {

std::string QuotedName(absl::string_view name) {
  constexpr size_t kShown = 120;
  size_t shown = std::min(name.size(), kShown);
  // Not inside a code point.
  while (shown > 0 && shown < name.size() && (static_cast<unsigned char>(name[shown]) & 0xC0u) == 0x80u) --shown;
  return absl::StrCat("'", absl::Utf8SafeCEscape(name.substr(0, shown)), shown < name.size() ? "..." : "", "'");
}

}  // namespace meshseal
