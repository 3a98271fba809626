#include "tools/cli/policy_flags.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/keyring.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::tools {

void PolicyFlags::AddTo(CLI::App& command) {
  AddTrust(command, trust_);
  command.add_flag("--require-signature", require_signature_, "take no plan that --trust does not vouch for");
  command.add_option("--pin", pin_, "accept only the plan with this id (64 hexadecimal digits)");
  command.add_option("--min-serial", min_serial_, "accept only plans with at least this serial");
  command.add_flag("--allow-unsigned-hosts", allow_unsigned_hosts_,
                   "take a plan for several hosts without --trust or --pin");
}

absl::StatusOr<Policy> PolicyFlags::Resolve() const {
  Policy policy;
  policy.min_serial = min_serial_;
  policy.require_signature = require_signature_;
  policy.allow_unsigned_hosts = allow_unsigned_hosts_;
  if (!pin_.empty()) {
    policy.pinned_id = DigestFromHex(pin_);
    if (!policy.pinned_id.has_value()) {
      return Refuse(
          Reason::kUsage,
          absl::StrCat("--pin: expected the whole plan id, 64 lower-case hexadecimal digits, found '", pin_, "'"));
    }
  }
  MESHSEAL_ASSIGN_OR_RETURN(policy.keyring, ReadTrust(trust_));
  return policy;
}

void AddTrust(CLI::App& command, std::string& folder) {
  command.add_option("--trust", folder, "keyring folder: a key in it must have signed the plan (PLAN.minisig)");
}

absl::StatusOr<std::optional<Keyring>> ReadTrust(const std::string& folder) {
  if (folder.empty()) return std::nullopt;
  MESHSEAL_ASSIGN_OR_RETURN(Keyring keyring, ReadKeyring(folder));
  return std::optional<Keyring>(std::move(keyring));
}

}  // namespace meshseal::tools
