// Versions of libraries as they are compared: number by number.
#ifndef MESHSEAL_SCHEMA_VERSION_NUMBERS_H_
#define MESHSEAL_SCHEMA_VERSION_NUMBERS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"

namespace meshseal {

// The numbers of a version such as "2.28.9"; nothing for any other text. A vector's order is that of versions: 2.28 is
// below 2.28.1.
std::optional<std::vector<uint32_t>> VersionNumbers(absl::string_view text);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_VERSION_NUMBERS_H_
