// The flags of the operator's policy, the same for every command that opens a plan.
#ifndef MESHSEAL_TOOLS_CLI_POLICY_FLAGS_H_
#define MESHSEAL_TOOLS_CLI_POLICY_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "schema/policy.h"

namespace meshseal::tools {

class PolicyFlags {
 public:
  // Adds --trust, --require-signature, --pin, --min-serial and --allow-unsigned-hosts.
  void AddTo(CLI::App& command);

  // Reads the keyring. Reasons: kUsage when the pinned id is not 64 lower-case hexadecimal digits, kKeyring.
  absl::StatusOr<Policy> Resolve() const;

 private:
  std::string trust_;
  bool require_signature_ = false;
  bool allow_unsigned_hosts_ = false;
  std::string pin_;
  uint64_t min_serial_ = 0;
};

// --trust alone, for commands that only look: whether a plan is signed, not whether it may run.
void AddTrust(CLI::App& command, std::string& folder);

// The keyring of --trust; none where it was not given. Reason kKeyring.
absl::StatusOr<std::optional<Keyring>> ReadTrust(const std::string& folder);

}  // namespace meshseal::tools

#endif  // MESHSEAL_TOOLS_CLI_POLICY_FLAGS_H_
