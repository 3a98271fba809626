// A look at a file gate by gate, for people: what SealedPlan::Open says, and what can be shown of a file that it
// refuses. What comes out is for printing. It is not a SealedPlan and cannot become one.
#ifndef MESHSEAL_SCHEMA_INSPECT_H_
#define MESHSEAL_SCHEMA_INSPECT_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "schema/gate.h"
#include "schema/plan.h"
#include "schema/sealed_plan.h"

namespace meshseal {

struct PlanInspection {
  absl::Status verdict;            // of SealedPlan::Open; kOutOfMemory: nothing was looked at, all else is empty
  std::optional<Signer> signer;    // of a plan that passes
  std::optional<Gate> refused_at;  // none: the plan passes
  std::string id;                  // 64 digits as the header holds them; empty for a file without a whole header
  std::optional<Plan> plan;        // as far as the payload can be read
};

PlanInspection InspectPlan(absl::string_view file, const Policy& policy,
                           std::optional<absl::string_view> signature = std::nullopt);

// "mark ok, format ok, size ok, digest REFUSED": the gates up to the one that refused.
std::string GatesText(const PlanInspection& inspection);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_INSPECT_H_
