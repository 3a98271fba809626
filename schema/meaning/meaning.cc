#include "schema/meaning/meaning.h"

#include <array>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "schema/meaning/rules.h"
#include "schema/reason.h"

namespace meshseal {
namespace {

constexpr std::array kRows = {
#define MESHSEAL_MEANING_RULE(Function, slug, promise) MeaningRuleRow{slug, promise},
#include "schema/meaning/rules.def"
#undef MESHSEAL_MEANING_RULE
};

using Check = meaning::Fault (*)(const Plan&, const SealFacts&);
constexpr std::array<Check, kRows.size()> kChecks = {
#define MESHSEAL_MEANING_RULE(Function, slug, promise) &meaning::Function,
#include "schema/meaning/rules.def"
#undef MESHSEAL_MEANING_RULE
};

}  // namespace

absl::Span<const MeaningRuleRow> MeaningRules() { return kRows; }

absl::Status CheckMeaning(const Plan& plan, const SealFacts& facts) {
  for (size_t i = 0; i < kChecks.size(); ++i) {
    if (const meaning::Fault fault = kChecks[i](plan, facts); fault.has_value()) {
      return Refuse(Reason::kMeaning, absl::StrCat("[", kRows[i].slug, "] ", *fault));
    }
  }
  return absl::OkStatus();
}

}  // namespace meshseal
