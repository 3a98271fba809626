#include "tools/cli/policy_flags.h"

#include "absl/strings/str_cat.h"
#include "schema/reason.h"

namespace meshseal::tools {

void PolicyFlags::AddTo(CLI::App& command) {
  command.add_option("--pin", pin_, "accept only the plan with this id (64 hexadecimal digits)");
  command.add_option("--min-serial", min_serial_, "accept only plans with at least this serial");
}

absl::StatusOr<Policy> PolicyFlags::Resolve() const {
  Policy policy;
  policy.min_serial = min_serial_;
  if (!pin_.empty()) {
    policy.pinned_id = DigestFromHex(pin_);
    if (!policy.pinned_id.has_value()) {
      return Refuse(
          Reason::kUsage,
          absl::StrCat("--pin: expected the whole plan id, 64 lower-case hexadecimal digits, found '", pin_, "'"));
    }
  }
  return policy;
}

}  // namespace meshseal::tools
