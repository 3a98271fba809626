// SealedPlan: a plan that passed every gate. The only thing a Session is made from, and only Open makes one.
#ifndef MESHSEAL_SCHEMA_SEALED_PLAN_H_
#define MESHSEAL_SCHEMA_SEALED_PLAN_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/gate.h"
#include "schema/minisign_key.h"
#include "schema/plan.h"
#include "schema/policy.h"
#include "schema/seal.h"
#include "schema/sha256.h"

namespace meshseal {

// The trusted key that signed a plan, and what it signed beside the file.
struct Signer {
  std::string name;  // of the key in the keyring
  KeyId key_id{};
  std::string trusted_comment;  // printable UTF-8 and tabs
};

// Move-only and immutable; safe to share between threads. A moved-from SealedPlan is not valid(): it may only be asked
// that, assigned or destroyed.
class SealedPlan final {
 public:
  // All gates over `file` and `signature`, the text of its signature file where there is one. Both are copied first:
  // the caller's memory may change meanwhile. Without a keyring in `policy` the signature is not looked at. A refusal
  // carries its Reason and its text starts with the gate's name.
  static absl::StatusOr<SealedPlan> Open(absl::string_view file, const Policy& policy,
                                         std::optional<absl::string_view> signature = std::nullopt);

  SealedPlan(SealedPlan&&) noexcept;
  SealedPlan& operator=(SealedPlan&&) noexcept;
  SealedPlan(const SealedPlan&) = delete;
  SealedPlan& operator=(const SealedPlan&) = delete;
  ~SealedPlan();

  bool valid() const { return content_ != nullptr; }

  const Plan& plan() const;
  const Sha256Digest& id() const;
  uint64_t serial() const;
  // Who signed it; none where no keyring was asked: `sealed` and not `signed`.
  const std::optional<Signer>& signer() const;

 private:
  struct Content;  // nobody outside the .cc can name its members
  explicit SealedPlan(std::unique_ptr<const Content> content);

  std::unique_ptr<const Content> content_;
};

// The gate that a refusal of SealedPlan::Open came from; nothing for any other status.
std::optional<Gate> GateOf(const absl::Status& refusal);

// The bytes of a plan file (small_file.h), at most header + payload cap. Reason kUsage for a file that cannot be
// opened, kPayloadTooLarge for one above the cap.
absl::StatusOr<std::string> ReadPlanFile(const std::filesystem::path& path);

// Where the signature of the plan file `path` lies: PATH.minisig.
std::filesystem::path SignaturePathOf(const std::filesystem::path& path);

// The text of the signature file of the plan file `path`; none where there is no such file. Reasons: kUsage for one
// that cannot be opened, kSignatureFormat for one that is too long.
absl::StatusOr<std::optional<std::string>> ReadSignatureFile(const std::filesystem::path& path);

// Seals `plan` as of `serial` and opens the result: a plan that would be refused is never written. A refusal means a
// fault of the caller, the compiler.
absl::StatusOr<std::string> SealPlan(const Plan& plan, uint64_t serial);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_SEALED_PLAN_H_
