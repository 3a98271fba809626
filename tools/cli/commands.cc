#include "tools/cli/commands.h"

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schema/nearest.h"
#include "schema/plan.h"
#include "schema/seal.h"
#include "schema/version.h"
#include "schema/weight_digests.h"

namespace meshseal::tools {

std::string NearestCommand(absl::string_view name) {
  std::vector<absl::string_view> names;
  for (const CommandRow& row : kCommands) names.emplace_back(row.name);
  const std::optional<absl::string_view> nearest = Nearest(name, names);
  return nearest.has_value() ? absl::StrCat(" Did you mean '", std::string(*nearest), "'?") : "";
}

std::string VersionText() {
  return absl::StrCat("meshseal ", std::string(Version()), ", plan format ", kPlanFormatMajor, ".", kPlanFormatMinor,
                      ", digest list format ", kDigestsFormatMajor, ".", kDigestsFormatMinor, ", envelope ",
                      kEnvelopeMajor, ".", kEnvelopeMinor);
}

}  // namespace meshseal::tools
