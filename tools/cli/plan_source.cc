#include "tools/cli/plan_source.h"

#include "absl/strings/str_cat.h"
#include "schema/status_macros.h"

namespace meshseal::tools {

absl::StatusOr<PlanSource> ReadPlanSource(const std::string& path) {
  PlanSource source;
  MESHSEAL_ASSIGN_OR_RETURN(source.file, ReadPlanFile(path));
  MESHSEAL_ASSIGN_OR_RETURN(source.signature, ReadSignatureFile(path));
  return source;
}

std::string StandingText(const PlanSource& source, const std::optional<Signer>& signer) {
  if (signer.has_value()) return absl::StrCat("sealed, signed by ", signer->name);
  return source.signature.has_value() ? "sealed, signature not checked" : "sealed, not signed";
}

}  // namespace meshseal::tools
