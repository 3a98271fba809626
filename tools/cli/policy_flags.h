// The flags of the operator's policy, the same for every command that opens a plan.
#ifndef MESHSEAL_TOOLS_CLI_POLICY_FLAGS_H_
#define MESHSEAL_TOOLS_CLI_POLICY_FLAGS_H_

#include <cstdint>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "schema/sealed_plan.h"

namespace meshseal::tools {

class PolicyFlags {
 public:
  // Adds --pin and --min-serial.
  void AddTo(CLI::App& command);

  // Reason kUsage when the pinned id is not 64 lower-case hexadecimal digits.
  absl::StatusOr<Policy> Resolve() const;

 private:
  std::string pin_;
  uint64_t min_serial_ = 0;
};

}  // namespace meshseal::tools

#endif  // MESHSEAL_TOOLS_CLI_POLICY_FLAGS_H_
