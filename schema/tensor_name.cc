#include "schema/tensor_name.h"

#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace meshseal {
namespace {

constexpr absl::string_view kLayer = "{layer}";
constexpr absl::string_view kExpert = "{expert}";

// The length of the decimal number that `text` starts with; 0 when it starts with none.
size_t NumberLength(absl::string_view text) {
  size_t length = 0;
  while (length < text.size() && text[length] >= '0' && text[length] <= '9') ++length;
  return length > 1 && text[0] == '0' ? 1 : length;
}

}  // namespace

std::string TensorName(absl::string_view pattern, uint32_t layer, uint32_t expert) {
  return absl::StrReplaceAll(pattern, {{kLayer, absl::StrCat(layer)}, {kExpert, absl::StrCat(expert)}});
}

// Walks both once; after a mismatch it goes back to the last star and lets it take one character more. A number takes
// all its digits, so there is nothing else to go back to.
bool MatchesPattern(absl::string_view pattern, absl::string_view name) {
  size_t p = 0;
  size_t n = 0;
  size_t star = absl::string_view::npos;
  size_t star_name = 0;
  while (true) {
    const absl::string_view rest = pattern.substr(p);
    const size_t placeholder = absl::StartsWith(rest, kLayer)    ? kLayer.size()
                               : absl::StartsWith(rest, kExpert) ? kExpert.size()
                                                                 : 0;
    if (rest.empty() && n == name.size()) return true;
    if (!rest.empty() && rest[0] == '*') {
      star = p++;
      star_name = n;
    } else if (const size_t digits = placeholder == 0 ? 0 : NumberLength(name.substr(n)); digits > 0) {
      p += placeholder;
      n += digits;
    } else if (placeholder == 0 && !rest.empty() && n < name.size() && rest[0] == name[n]) {
      ++p;
      ++n;
    } else if (star != absl::string_view::npos && star_name < name.size()) {
      p = star + 1;
      n = ++star_name;
    } else {
      return false;
    }
  }
}

}  // namespace meshseal
