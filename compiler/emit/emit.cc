#include "compiler/emit/emit.h"

#include "absl/strings/str_cat.h"
#include "schema/reason.h"
#include "schema/sealed_plan.h"

namespace meshseal::compiler {

absl::StatusOr<std::string> Emit(const PlanDraft& draft, uint64_t serial) {
  absl::StatusOr<std::string> sealed = SealPlan(draft.plan(), serial);
  if (!sealed.ok() && ReasonOf(sealed.status()) != Reason::kOutOfMemory) {
    return Refuse(Reason::kBug,
                  absl::StrCat("the compiler made a plan that is refused: ", std::string(sealed.status().message())));
  }
  return sealed;
}

}  // namespace meshseal::compiler
