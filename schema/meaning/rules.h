// The functions behind meaning/rules.def; internal to schema.
#ifndef MESHSEAL_SCHEMA_MEANING_RULES_H_
#define MESHSEAL_SCHEMA_MEANING_RULES_H_

#include <initializer_list>
#include <optional>
#include <string>

#include "schema/plan.h"
#include "schema/seal.h"

namespace meshseal::meaning {

// What is wrong, or nothing.
using Fault = std::optional<std::string>;

// The first fault there is.
inline Fault FirstOf(std::initializer_list<Fault> faults) {
  for (const Fault& fault : faults) {
    if (fault.has_value()) return fault;
  }
  return std::nullopt;
}

#define MESHSEAL_MEANING_RULE(Function, slug, promise) Fault Function(const Plan& plan, const SealFacts& facts);
#include "schema/meaning/rules.def"
#undef MESHSEAL_MEANING_RULE

}  // namespace meshseal::meaning

#endif  // MESHSEAL_SCHEMA_MEANING_RULES_H_
