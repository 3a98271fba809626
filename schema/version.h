// The version of this build of meshseal.
#ifndef MESHSEAL_SCHEMA_VERSION_H_
#define MESHSEAL_SCHEMA_VERSION_H_

#include "absl/strings/string_view.h"

namespace meshseal {

// "0.1.0"; CMakeLists.txt says which.
absl::string_view Version();

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_VERSION_H_
