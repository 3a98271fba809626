// Names from files as they may stand in a message.
#ifndef MESHSEAL_SCHEMA_QUOTED_NAME_H_
#define MESHSEAL_SCHEMA_QUOTED_NAME_H_

#include <string>

#include "absl/strings/string_view.h"

namespace meshseal {

// 'NAME', with everything escaped that is not printable or UTF-8, and cut with "..." when it is long.
std::string QuotedName(absl::string_view name);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_QUOTED_NAME_H_
