#include "schema/inspect.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/plan_codec.h"
#include "schema/seal.h"

namespace meshseal {

PlanInspection InspectPlan(absl::string_view file, const Policy& policy) {
  PlanInspection inspection;
  absl::StatusOr<SealedPlan> opened = SealedPlan::Open(file, policy);
  inspection.verdict = opened.status();
  if (file.size() >= kSealSize && CheckMark(file).ok()) inspection.id = HexOf(FactsOf(file).plan_id);
  if (opened.ok()) {
    inspection.plan = opened->plan();
    return inspection;
  }
  inspection.refused_at = GateOf(opened.status());
  if (inspection.id.empty() || !CheckFormat(file, PayloadType::kPlan).ok()) return inspection;
  const std::string payload(PayloadOf(file));  // aligned, as the decoder needs it
  if (absl::StatusOr<Plan> plan = DecodePlan(payload); plan.ok()) inspection.plan = std::move(plan).value();
  return inspection;
}

std::string GatesText(const PlanInspection& inspection) {
  std::string text;
  for (const GateRow& row : kGates) {
    const bool refused = inspection.refused_at == row.gate;
    absl::StrAppend(&text, text.empty() ? "" : ", ", row.name, refused ? " REFUSED" : " ok");
    if (refused) break;
  }
  return text;
}

}  // namespace meshseal
