#include "tools/plan/signing.h"

#include <unistd.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "schema/minisign_key.h"
#include "schema/minisign_signature.h"
#include "schema/reason.h"
#include "schema/sealed_plan.h"
#include "schema/small_file.h"
#include "schema/status_macros.h"
#include "tools/cli/password.h"
#include "tools/cli/program.h"
#include "tools/cli/whole_file.h"

namespace meshseal::tools {
namespace {

absl::StatusOr<SecretKey> ReadSecretKey(const std::string& path) {
  MESHSEAL_ASSIGN_OR_RETURN(std::string file,
                            ReadSmallFile(path, "a secret key", kMaxSecretKeyFile, Reason::kKeyFormat));
  const SecretText text(std::move(file));
  absl::StatusOr<SecretKey> key = SecretKey::Parse(text.view(), std::nullopt);
  if (key.ok() || ReasonOf(key.status()) != Reason::kKeyPassword) return key;
  MESHSEAL_ASSIGN_OR_RETURN(const SecretText password, ReadPassword(PasswordUse::kKnown));
  return SecretKey::Parse(text.view(), password.view());
}

absl::Status PrintLine(const std::string& command, const std::string& line) {
  return Print(command, line + "\n") == 0 ? absl::OkStatus() : Refuse(Reason::kUsage, "nothing was printed");
}

}  // namespace

absl::Status Keygen(const KeygenFlags& flags) {
  if (flags.public_path == "-" || flags.secret_path == "-") return Refuse(Reason::kUsage, "keys are written to files");
  std::optional<SecretText> password;
  if (flags.password) {
    MESHSEAL_ASSIGN_OR_RETURN(password, ReadPassword(PasswordUse::kNew));
  }
  MESHSEAL_ASSIGN_OR_RETURN(const SecretKey key, SecretKey::Generate());
  const PasswordCost cost = flags.password_cost == "sensitive" ? PasswordCost::kSensitive : PasswordCost::kInteractive;
  std::optional<absl::string_view> given;
  if (password.has_value()) given = password->view();
  MESHSEAL_ASSIGN_OR_RETURN(const SecretText secret, key.Write(given, cost));
  const std::string public_file = PublicKeyFile(key.public_key());
  MESHSEAL_RETURN_IF_ERROR(WriteWholeFile(flags.secret_path, {secret.view()}, FileKind::kSecret));
  if (absl::Status written = WriteWholeFile(flags.public_path, {public_file}, FileKind::kKept); !written.ok()) {
    ::unlink(flags.secret_path.c_str());  // half a pair is of no use
    return written;
  }
  return PrintLine("keygen", absl::StrCat("key ", KeyIdText(key.public_key().id), ": sign with ", flags.secret_path,
                                          ", put ", flags.public_path, " into the keyring of whoever runs the plans"));
}

absl::Status Sign(const SignFlags& flags) {
  MESHSEAL_ASSIGN_OR_RETURN(const std::string file, ReadPlanFile(flags.plan_path));
  Policy policy;
  policy.allow_unsigned_hosts = true;
  MESHSEAL_ASSIGN_OR_RETURN(const SealedPlan plan, SealedPlan::Open(file, policy));
  MESHSEAL_ASSIGN_OR_RETURN(const SecretKey key, ReadSecretKey(flags.secret_path));
  const std::string id = HexOf(plan.id());
  const std::string comment = flags.comment.empty() ? absl::StrCat("plan ", id, " serial ", plan.serial(),
                                                                   " deployment ", plan.plan().deployment_name)
                                                    : flags.comment;
  MESHSEAL_ASSIGN_OR_RETURN(const std::string signature, SignDetached(file, key, comment));
  const std::string path = SignaturePathOf(flags.plan_path).string();
  MESHSEAL_RETURN_IF_ERROR(WriteWholeFile(path, {signature}));
  return PrintLine("sign", absl::StrCat(path, ": plan id ", id, " signed by key ", KeyIdText(key.public_key().id)));
}

}  // namespace meshseal::tools
