// Detached signatures in the files of minisign (P.mseal.minisig): the stock program verifies ours, and we its.
//
//   untrusted comment: <checked for form, otherwise ignored>
//   base64 of "ED" | key id (8) | Ed25519 over BLAKE2b-512 of the signed file (64)
//   trusted comment: <signed>
//   base64 of Ed25519 over the 64 bytes of the signature and the trusted comment (64)
//
// Four lines, a line feed after each, as the stock program writes them; nothing else is accepted. The untrusted comment
// can be changed by anybody: bytes of a signature file identify nothing. Only the prehashed form "ED" is accepted.
#ifndef MESHSEAL_SCHEMA_MINISIGN_SIGNATURE_H_
#define MESHSEAL_SCHEMA_MINISIGN_SIGNATURE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schema/minisign_key.h"
#include "schema/minisign_text.h"

namespace meshseal {

inline constexpr size_t kSignatureBytes = 2 + 8 + 64;
// The largest signature file that is read: nobody needs to load more.
inline constexpr size_t kMaxSignatureFile = kUntrustedCommentPrefix.size() + kMaxUntrustedComment + 1 +
                                            Base64Length(kSignatureBytes) + 1 + kTrustedCommentPrefix.size() +
                                            kMaxTrustedComment + 1 + Base64Length(64) + 1;

// The text of the signature file of `file` by `key`. Reason: kSignatureComment.
absl::StatusOr<std::string> SignDetached(absl::string_view file, const SecretKey& key,
                                         absl::string_view trusted_comment);

// A well-formed signature file, of which nothing is known to be true before Verify. Copyable and immutable.
class DetachedSignature {
 public:
  // Reasons: kSignatureFormat, kSignatureAlgorithm, kSignatureComment.
  static absl::StatusOr<DetachedSignature> Parse(absl::string_view text);

  // The key to verify with, as the file has it.
  const KeyId& key_id() const { return key_id_; }

  // The trusted comment, once `key` is known to have signed both it and `file`. Reasons: kSignatureKey (another key
  // id), kSignatureBytes, kSignatureTrustedComment, kBug.
  absl::StatusOr<std::string> Verify(absl::string_view file, const PublicKey& key) const;

 private:
  DetachedSignature() = default;

  KeyId key_id_{};
  Ed25519Signature signature_{};
  std::string trusted_comment_;
  Ed25519Signature global_signature_{};
};

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_MINISIGN_SIGNATURE_H_
