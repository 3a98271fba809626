// The meaning gate: derives again, from the plan alone, everything the compiler wrote into it. It shares no code with
// the planner, because its job is to distrust it. Linear in the plan's size, all arithmetic checked.
#ifndef MESHSEAL_SCHEMA_MEANING_MEANING_H_
#define MESHSEAL_SCHEMA_MEANING_MEANING_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "schema/plan.h"
#include "schema/seal.h"

namespace meshseal {

struct MeaningRuleRow {
  const char* slug;
  const char* promise;
};

// The rules, in order; the table is rules.def.
absl::Span<const MeaningRuleRow> MeaningRules();

// OK, or Reason::kMeaning with "[slug] what was found, what follows" of the first rule that is broken.
absl::Status CheckMeaning(const Plan& plan, const SealFacts& facts);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_MEANING_MEANING_H_
