#include "runtime/execute/step_frame.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schema/reason.h"

namespace meshseal::runtime {

absl::Status StepFrame::Placed(uint32_t step_number, const absl::Status& failure) const {
  if (failure.ok()) return failure;
  const std::string place =
      absl::StrCat("layer ", layer_, ", step ", step_number, " ", program_.steps()[step_number].mnemonic,
                   program_.gathers() ? " (tokens counted over all dense groups): " : ": ");
  // A peer that ended the world here has said so already.
  if (absl::StartsWith(failure.message(), place)) return failure;
  return Refuse(ReasonOf(failure).value_or(Reason::kBug), absl::StrCat(place, failure.message()));
}

}  // namespace meshseal::runtime
