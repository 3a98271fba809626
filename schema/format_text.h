// absl::StrFormat where memory may be short. Abseil's own appends to its text in a destructor, so that std::bad_alloc
// ends the process.
#ifndef MESHSEAL_SCHEMA_FORMAT_TEXT_H_
#define MESHSEAL_SCHEMA_FORMAT_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/str_format.h"

namespace meshseal {

// Like absl::StrAppendFormat; takes the memory first, and throws std::bad_alloc where there is none.
template <class... Args>
void AppendFormat(std::string* text, const absl::FormatSpec<Args...>& format, const Args&... args) {
  const int length = absl::SNPrintF(nullptr, 0, format, args...);
  text->reserve(text->size() + static_cast<size_t>(length));
  absl::StrAppendFormat(text, format, args...);
}

// Like absl::StrFormat.
template <class... Args>
std::string FormatText(const absl::FormatSpec<Args...>& format, const Args&... args) {
  std::string text;
  AppendFormat(&text, format, args...);
  return text;
}

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_FORMAT_TEXT_H_
