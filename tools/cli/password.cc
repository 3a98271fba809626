#include "tools/cli/password.h"

#include <termios.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "schema/reason.h"
#include "schema/status_macros.h"
#include "schema/uninterrupted.h"

namespace meshseal::tools {
namespace {

// Byte by byte: what follows the line belongs to somebody else.
absl::StatusOr<SecretText> ReadLine() {
  std::string line;
  line.reserve(kMaxPassword + 1);  // it must not move and leave copies behind
  while (line.size() <= kMaxPassword) {
    char byte = 0;
    if (Uninterrupted([&byte] { return ::read(STDIN_FILENO, &byte, 1); }) <= 0) {
      const SecretText wiped(std::move(line));
      return Refuse(Reason::kUsage, "standard input ends before the line with the password");
    }
    if (byte == '\n') return SecretText(std::move(line));
    line.push_back(byte);
  }
  const SecretText wiped(std::move(line));
  return Refuse(Reason::kKeyPassword, absl::StrCat("a password has at most ", kMaxPassword, " bytes"));
}

absl::StatusOr<SecretText> Ask(const char* prompt) {
  termios shown = {};
  if (::tcgetattr(STDIN_FILENO, &shown) != 0) return ReadLine();  // not a terminal
  termios hidden = shown;
  hidden.c_lflag &= ~static_cast<tcflag_t>(ECHO);
  std::fputs(prompt, stderr);
  ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden);
  const absl::Cleanup restore = [&shown] {
    ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &shown);
    std::fputc('\n', stderr);
  };
  return ReadLine();
}

}  // namespace

absl::StatusOr<SecretText> ReadPassword(PasswordUse use) {
  MESHSEAL_ASSIGN_OR_RETURN(SecretText password, Ask("password of the secret key: "));
  if (use == PasswordUse::kKnown || ::isatty(STDIN_FILENO) != 1) return password;
  MESHSEAL_ASSIGN_OR_RETURN(const SecretText again, Ask("once more: "));
  if (again.view() == password.view()) return password;
  return Refuse(Reason::kUsage, "the two passwords are not the same");
}

}  // namespace meshseal::tools
