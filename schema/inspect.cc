#include "schema/inspect.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/plan_codec.h"
#include "schema/reason.h"
#include "schema/seal.h"
#include "schema/within_memory.h"

namespace meshseal {

namespace {

absl::StatusOr<PlanInspection> Inspect(absl::string_view file, const Policy& policy,
                                       std::optional<absl::string_view> signature) {
  PlanInspection inspection;
  absl::StatusOr<SealedPlan> opened = SealedPlan::Open(file, policy, signature);
  if (ReasonOf(opened.status()) == Reason::kOutOfMemory) return opened.status();
  inspection.verdict = opened.status();
  if (file.size() >= kSealSize && CheckMark(file).ok()) inspection.id = HexOf(FactsOf(file).plan_id);
  if (opened.ok()) {
    inspection.signer = opened->signer();
    inspection.plan = opened->plan();
    return inspection;
  }
  inspection.refused_at = GateOf(opened.status());
  if (inspection.id.empty() || !CheckFormat(file, PayloadType::kPlan).ok()) return inspection;
  const std::string payload(PayloadOf(file));  // aligned, as the decoder needs it
  if (absl::StatusOr<Plan> plan = DecodePlan(payload); plan.ok()) inspection.plan = std::move(plan).value();
  return inspection;
}

}  // namespace

PlanInspection InspectPlan(absl::string_view file, const Policy& policy, std::optional<absl::string_view> signature) {
  absl::StatusOr<PlanInspection> inspection = WithinMemory([&] { return Inspect(file, policy, signature); });
  if (inspection.ok()) return std::move(inspection).value();
  PlanInspection nothing;
  nothing.verdict = inspection.status();
  return nothing;
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
