#include "schema/version.h"

namespace meshseal {

absl::string_view Version() { return MESHSEAL_VERSION; }

}  // namespace meshseal
