#include "schema/version_numbers.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace meshseal {

std::optional<std::vector<uint32_t>> VersionNumbers(absl::string_view text) {
  std::vector<uint32_t> numbers;
  for (const absl::string_view part : absl::StrSplit(text, '.')) {
    uint32_t number = 0;
    const bool digits = !part.empty() && part.find_first_not_of("0123456789") == absl::string_view::npos;
    if (!digits || !absl::SimpleAtoi(part, &number)) return std::nullopt;
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace meshseal
