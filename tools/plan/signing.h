// The commands keygen and sign.
#ifndef MESHSEAL_TOOLS_PLAN_SIGNING_H_
#define MESHSEAL_TOOLS_PLAN_SIGNING_H_

#include <string>

#include "absl/status/status.h"

namespace meshseal::tools {

struct KeygenFlags {
  std::string public_path;
  std::string secret_path;
  bool password = false;
  std::string password_cost = "sensitive";
};

// Writes a new key pair; neither file may exist. Reasons: kUsage, kKeyPassword, kKeyMemory.
absl::Status Keygen(const KeygenFlags& flags);

struct SignFlags {
  std::string plan_path;
  std::string secret_path;
  std::string comment;  // empty: what is signed, in words
};

// Writes the signature file of a plan that passes the gates. Reasons: those of SealedPlan::Open, kKeyFormat,
// kKeyPassword, kKeyMemory, kSignatureComment, kUsage.
absl::Status Sign(const SignFlags& flags);

}  // namespace meshseal::tools

#endif  // MESHSEAL_TOOLS_PLAN_SIGNING_H_
