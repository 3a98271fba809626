// A plan as a command finds it: its file, and its signature file where there is one.
#ifndef MESHSEAL_TOOLS_CLI_PLAN_SOURCE_H_
#define MESHSEAL_TOOLS_CLI_PLAN_SOURCE_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "schema/sealed_plan.h"

namespace meshseal::tools {

struct PlanSource {
  std::string file;
  std::optional<std::string> signature;
};

// Reasons: those of ReadPlanFile and ReadSignatureFile.
absl::StatusOr<PlanSource> ReadPlanSource(const std::string& path);

// How an accepted plan stands: "sealed, signed by NAME", "sealed, signature not checked" (a signature and no keyring)
// or "sealed, not signed".
std::string StandingText(const PlanSource& source, const std::optional<Signer>& signer);

}  // namespace meshseal::tools

#endif  // MESHSEAL_TOOLS_CLI_PLAN_SOURCE_H_
