#include "schema/minisign_signature.h"

#include <sodium.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "schema/reason.h"
#include "schema/status_macros.h"
#include "schema/within_memory.h"

namespace meshseal {
namespace {

constexpr absl::string_view kPrehashed = "ED";
constexpr absl::string_view kLegacy = "Ed";

using FileHash = std::array<uint8_t, 64>;

FileHash HashOf(absl::string_view file) {
  FileHash hash{};
  crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const uint8_t*>(file.data()), file.size(), nullptr, 0);
  return hash;
}

// What the global signature is over.
std::vector<uint8_t> GlobalMessage(const Ed25519Signature& signature, absl::string_view trusted_comment) {
  std::vector<uint8_t> message(signature.begin(), signature.end());
  message.insert(message.end(), trusted_comment.begin(), trusted_comment.end());
  return message;
}

bool Signed(absl::Span<const uint8_t> message, const Ed25519Signature& signature, const PublicKey& key) {
  return crypto_sign_verify_detached(signature.data(), message.data(), message.size(), key.point.data()) == 0;
}

// The comment of line `number`, whose prefix must stand there.
absl::StatusOr<absl::string_view> CommentOf(absl::string_view line, size_t number, absl::string_view prefix,
                                            absl::string_view what, size_t max_size) {
  if (!absl::StartsWith(line, prefix)) {
    return Refuse(Reason::kSignatureFormat, absl::StrCat("line ", number, " does not start with '", prefix, "'"));
  }
  line.remove_prefix(prefix.size());
  MESHSEAL_RETURN_IF_ERROR(CheckComment(line, what, max_size, Reason::kSignatureComment));
  return line;
}

absl::Status CheckAlgorithm(absl::string_view algorithm) {
  if (algorithm == kPrehashed) return absl::OkStatus();
  if (algorithm == kLegacy) {
    return Refuse(Reason::kSignatureAlgorithm,
                  "the signature is of the legacy kind 'Ed', without a hash of the file; only 'ED' is accepted");
  }
  return Refuse(Reason::kSignatureAlgorithm,
                absl::StrCat("the signature's algorithm is ", absl::BytesToHexString(algorithm), ", expected ",
                             absl::BytesToHexString(kPrehashed), " ('", kPrehashed, "')"));
}

}  // namespace

absl::StatusOr<std::string> SignDetached(absl::string_view file, const SecretKey& key,
                                         absl::string_view trusted_comment) {
  return WithinMemory([&]() -> absl::StatusOr<std::string> {
    MESHSEAL_RETURN_IF_ERROR(
        CheckComment(trusted_comment, "trusted comment", kMaxTrustedComment, Reason::kSignatureComment));
    const PublicKey public_key = key.public_key();
    const Ed25519Signature signature = key.Sign(HashOf(file));
    std::array<uint8_t, kSignatureBytes> fields{};
    auto end = std::copy(kPrehashed.begin(), kPrehashed.end(), fields.begin());
    end = std::copy(public_key.id.begin(), public_key.id.end(), end);
    std::copy(signature.begin(), signature.end(), end);

    std::string text = absl::StrCat(kUntrustedCommentPrefix, "signature by key ", KeyIdText(public_key.id), "\n");
    AppendBase64Line(fields, text);
    absl::StrAppend(&text, kTrustedCommentPrefix, trusted_comment, "\n");
    AppendBase64Line(key.Sign(GlobalMessage(signature, trusted_comment)), text);
    return text;
  });
}

absl::StatusOr<DetachedSignature> DetachedSignature::Parse(absl::string_view text) {
  return WithinMemory([&]() -> absl::StatusOr<DetachedSignature> {
    MESHSEAL_ASSIGN_OR_RETURN(const auto lines, MinisignLines(text, 4, kMaxSignatureFile, Reason::kSignatureFormat));
    MESHSEAL_RETURN_IF_ERROR(
        CommentOf(lines[0], 1, kUntrustedCommentPrefix, "untrusted comment", kMaxUntrustedComment).status());
    std::array<uint8_t, kSignatureBytes> fields{};
    MESHSEAL_RETURN_IF_ERROR(DecodeBase64Line(lines[1], 2, absl::MakeSpan(fields), Reason::kSignatureFormat));
    MESHSEAL_RETURN_IF_ERROR(CheckAlgorithm({reinterpret_cast<const char*>(fields.data()), kPrehashed.size()}));
    MESHSEAL_ASSIGN_OR_RETURN(const absl::string_view trusted_comment,
                              CommentOf(lines[2], 3, kTrustedCommentPrefix, "trusted comment", kMaxTrustedComment));
    DetachedSignature parsed;
    const auto key_id_begin = fields.begin() + kPrehashed.size();
    std::copy_n(key_id_begin, parsed.key_id_.size(), parsed.key_id_.begin());
    std::copy(key_id_begin + parsed.key_id_.size(), fields.end(), parsed.signature_.begin());
    parsed.trusted_comment_ = std::string(trusted_comment);
    MESHSEAL_RETURN_IF_ERROR(
        DecodeBase64Line(lines[3], 4, absl::MakeSpan(parsed.global_signature_), Reason::kSignatureFormat));
    return parsed;
  });
}

absl::StatusOr<std::string> DetachedSignature::Verify(absl::string_view file, const PublicKey& key) const {
  return WithinMemory([&]() -> absl::StatusOr<std::string> {
    MESHSEAL_RETURN_IF_ERROR(StartSodium());
    if (key_id_ != key.id) {
      return Refuse(Reason::kSignatureKey,
                    absl::StrCat("the signature is by key ", KeyIdText(key_id_), ", not by key ", KeyIdText(key.id)));
    }
    if (!Signed(HashOf(file), signature_, key)) {
      return Refuse(Reason::kSignatureBytes, absl::StrCat("the signature is not one of key ", KeyIdText(key.id),
                                                          " over the bytes of this file"));
    }
    if (!Signed(GlobalMessage(signature_, trusted_comment_), global_signature_, key)) {
      return Refuse(Reason::kSignatureTrustedComment,
                    absl::StrCat("the trusted comment is not signed by key ", KeyIdText(key.id)));
    }
    return trusted_comment_;
  });
}

}  // namespace meshseal
