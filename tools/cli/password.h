// Passwords of secret keys.
#ifndef MESHSEAL_TOOLS_CLI_PASSWORD_H_
#define MESHSEAL_TOOLS_CLI_PASSWORD_H_

#include "absl/status/statusor.h"
#include "schema/minisign_key.h"

namespace meshseal::tools {

enum class PasswordUse : uint8_t {
  kKnown,  // of a key that exists
  kNew,    // asked for twice on a terminal
};

// One line of standard input, without its line end: typed unseen after a prompt on stderr where that is a terminal.
// Reasons: kUsage when it ends before a line, or the second password is another one; kKeyPassword when it is too long.
absl::StatusOr<SecretText> ReadPassword(PasswordUse use);

}  // namespace meshseal::tools

#endif  // MESHSEAL_TOOLS_CLI_PASSWORD_H_
