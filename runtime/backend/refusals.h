// Why a step of a token cannot be used, in the same words from every backend.
#ifndef MESHSEAL_RUNTIME_BACKEND_REFUSALS_H_
#define MESHSEAL_RUNTIME_BACKEND_REFUSALS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/program/fixed_point.h"

namespace meshseal::runtime {

// Whose output it is: "expert 5".
std::string ExpertText(uint64_t expert);
inline constexpr absl::string_view kSharedExpertText = "the shared expert";

// kNonFinite: "token 3: the router score of expert 5 is not finite".
absl::Status RefuseScore(uint64_t token, uint64_t expert);

// kNonFinite: "token 3: the output of expert 5 is not finite".
absl::Status RefuseOutput(uint64_t token, absl::string_view whose);

// Why an addend of an exact sum is none: as above where it is not finite, else kBound: "token 3: the output of expert 5
// is 2048, not below the bound 1024".
absl::Status RefuseAddend(const FixedPoint& fixed_point, uint64_t token, absl::string_view whose, float addend);

// kBug: more grouped rows than the plan proves.
absl::Status RefuseRows(uint64_t needed, uint64_t proven);

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_BACKEND_REFUSALS_H_
