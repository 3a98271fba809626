#include "runtime/backend/refusals.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "schema/format_text.h"
#include "schema/reason.h"

namespace meshseal::runtime {

std::string ExpertText(uint64_t expert) { return absl::StrCat("expert ", expert); }

absl::Status RefuseScore(uint64_t token, uint64_t expert) {
  return Refuse(Reason::kNonFinite,
                absl::StrCat("token ", token, ": the router score of ", ExpertText(expert), " is not finite"));
}

absl::Status RefuseOutput(uint64_t token, absl::string_view whose) {
  return Refuse(Reason::kNonFinite, absl::StrCat("token ", token, ": the output of ", whose, " is not finite"));
}

absl::Status RefuseAddend(const FixedPoint& fixed_point, uint64_t token, absl::string_view whose, float addend) {
  if (!std::isfinite(addend)) return RefuseOutput(token, whose);
  return Refuse(Reason::kBound, absl::StrCat("token ", token, ": the output of ", whose, " is ",
                                             FormatText("%.9g", static_cast<double>(addend)), ", not below the bound ",
                                             FormatText("%.17g", fixed_point.bound)));
}

absl::Status RefuseRows(uint64_t needed, uint64_t proven) {
  return Refuse(Reason::kBug, absl::StrCat(needed, " rows are needed, the plan proves ", proven));
}

}  // namespace meshseal::runtime
