#include "schema/minisign_key.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schema/byte_text.h"
#include "schema/format_text.h"
#include "schema/reason.h"
#include "schema/status_macros.h"
#include "schema/within_memory.h"

namespace meshseal {
namespace {

constexpr absl::string_view kEd25519("Ed", 2);
constexpr absl::string_view kScrypt("Sc", 2);
constexpr absl::string_view kNoDerivation("\0\0", 2);
constexpr absl::string_view kBlake2b("B2", 2);

// Where each field of a secret key stands.
constexpr size_t kDerivationAt = 2;
constexpr size_t kChecksumKindAt = 4;
constexpr size_t kSaltAt = 6;
constexpr size_t kOperationsAt = 38;
constexpr size_t kMemoryAt = 46;
constexpr size_t kKeyIdAt = 54;
constexpr size_t kKeyAt = 62;
constexpr size_t kChecksumAt = 126;
constexpr size_t kChecksumSize = kSecretKeyBytes - kChecksumAt;
constexpr size_t kMaskedSize = kSecretKeyBytes - kKeyIdAt;  // what the password hides

constexpr uint64_t kMinOperations = crypto_pwhash_scryptsalsa208sha256_OPSLIMIT_MIN;
constexpr uint64_t kMaxOperations = crypto_pwhash_scryptsalsa208sha256_OPSLIMIT_SENSITIVE;
constexpr uint64_t kMinMemory = crypto_pwhash_scryptsalsa208sha256_MEMLIMIT_MIN;
constexpr uint64_t kMaxMemory = crypto_pwhash_scryptsalsa208sha256_MEMLIMIT_SENSITIVE;

static_assert(crypto_sign_PUBLICKEYBYTES == 32 && crypto_sign_SECRETKEYBYTES == 64 && crypto_sign_BYTES == 64);
static_assert(crypto_pwhash_scryptsalsa208sha256_SALTBYTES == kOperationsAt - kSaltAt);

// Bytes on the stack that are wiped at the end of their scope.
template <size_t kSize>
class WipedBytes {
 public:
  WipedBytes() = default;
  WipedBytes(const WipedBytes&) = delete;
  WipedBytes& operator=(const WipedBytes&) = delete;
  ~WipedBytes() { sodium_memzero(bytes_.data(), bytes_.size()); }

  uint8_t* at(size_t offset) { return bytes_.data() + offset; }
  const uint8_t* at(size_t offset) const { return bytes_.data() + offset; }
  absl::Span<uint8_t> span() { return absl::MakeSpan(bytes_); }

 private:
  std::array<uint8_t, kSize> bytes_{};
};
using SecretFields = WipedBytes<kSecretKeyBytes>;

bool Holds(const uint8_t* bytes, absl::string_view tag) { return std::memcmp(bytes, tag.data(), tag.size()) == 0; }

void Put(uint8_t* bytes, absl::string_view tag) { std::memcpy(bytes, tag.data(), tag.size()); }

uint64_t LoadNumber(const uint8_t* bytes) {
  uint64_t value = 0;
  for (unsigned i = 0; i < 8; ++i) value |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  return value;
}

void StoreNumber(uint8_t* bytes, uint64_t value) {
  for (unsigned i = 0; i < 8; ++i) bytes[i] = static_cast<uint8_t>(value >> (8 * i));
}

std::string TagText(const uint8_t* bytes) {
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(bytes), 2));
}

// OK if the two bytes are `tag`.
absl::Status CheckTag(const uint8_t* bytes, absl::string_view tag, absl::string_view what) {
  if (Holds(bytes, tag)) return absl::OkStatus();
  return Refuse(Reason::kKeyFormat, absl::StrCat("the key's ", what, " is ", TagText(bytes), ", expected ",
                                                 absl::BytesToHexString(tag), " ('", tag, "')"));
}

// Decodes line 2 of a key file.
absl::Status DecodeKeyFile(absl::string_view file, size_t max_size, absl::Span<uint8_t> out) {
  MESHSEAL_ASSIGN_OR_RETURN(const auto lines, MinisignLines(file, 2, max_size, Reason::kKeyFormat));
  if (!absl::StartsWith(lines[0], kUntrustedCommentPrefix)) {
    return Refuse(Reason::kKeyFormat, absl::StrCat("line 1 does not start with '", kUntrustedCommentPrefix, "'"));
  }
  MESHSEAL_RETURN_IF_ERROR(CheckComment(lines[0].substr(kUntrustedCommentPrefix.size()), "untrusted comment",
                                        kMaxUntrustedComment, Reason::kKeyFormat));
  return DecodeBase64Line(lines[1], 2, out, Reason::kKeyFormat);
}

// BLAKE2b-256 of "Ed", key id and key.
void ComputeChecksum(const SecretFields& fields, WipedBytes<kChecksumSize>& checksum) {
  WipedBytes<kEd25519.size() + kChecksumAt - kKeyIdAt> hashed;
  Put(hashed.at(0), kEd25519);
  std::memcpy(hashed.at(kEd25519.size()), fields.at(kKeyIdAt), kChecksumAt - kKeyIdAt);
  crypto_generichash(checksum.at(0), kChecksumSize, hashed.at(0), hashed.span().size(), nullptr, 0);
}

bool ChecksumHolds(const SecretFields& fields) {
  WipedBytes<kChecksumSize> checksum;
  ComputeChecksum(fields, checksum);
  return sodium_memcmp(checksum.at(0), fields.at(kChecksumAt), kChecksumSize) == 0;
}

absl::Status CheckPassword(absl::string_view password) {
  if (password.size() > kMaxPassword) {
    return Refuse(Reason::kKeyPassword,
                  absl::StrCat("the password has ", password.size(), " bytes, at most ", kMaxPassword, " are allowed"));
  }
  if (password.find_first_of(absl::string_view("\0\r\n", 3)) != absl::string_view::npos) {
    return Refuse(Reason::kKeyPassword, "the password has a line end or a zero byte in it");
  }
  return absl::OkStatus();
}

// Hides what `fields` hide under `password`, or uncovers it: the same step.
absl::Status Mask(absl::string_view password, SecretFields& fields) {
  const uint64_t memory = LoadNumber(fields.at(kMemoryAt));
  WipedBytes<kMaskedSize> stream;
  if (crypto_pwhash_scryptsalsa208sha256(stream.at(0), kMaskedSize, password.data(), password.size(),
                                         fields.at(kSaltAt), LoadNumber(fields.at(kOperationsAt)),
                                         static_cast<size_t>(memory)) != 0) {
    return Refuse(Reason::kKeyMemory, absl::StrCat("hashing the password of the key needs ", ByteText(memory),
                                                   " of memory, which cannot be had"));
  }
  for (size_t i = 0; i < kMaskedSize; ++i) *fields.at(kKeyIdAt + i) ^= *stream.at(i);
  return absl::OkStatus();
}

absl::Status Uncover(absl::string_view password, SecretFields& fields) {
  MESHSEAL_RETURN_IF_ERROR(CheckPassword(password));
  // A file must not choose how long we work and how much memory we take.
  const uint64_t operations = LoadNumber(fields.at(kOperationsAt));
  const uint64_t memory = LoadNumber(fields.at(kMemoryAt));
  if (operations < kMinOperations || operations > kMaxOperations) {
    return Refuse(Reason::kKeyFormat, absl::StrCat("the key asks for ", operations, " operations of scrypt, ",
                                                   kMinOperations, " to ", kMaxOperations, " are allowed"));
  }
  if (memory < kMinMemory || memory > kMaxMemory) {
    return Refuse(Reason::kKeyFormat, absl::StrCat("the key asks for ", memory, " bytes of memory for scrypt, ",
                                                   kMinMemory, " to ", kMaxMemory, " are allowed"));
  }
  MESHSEAL_RETURN_IF_ERROR(Mask(password, fields));
  if (ChecksumHolds(fields)) return absl::OkStatus();
  return Refuse(Reason::kKeyPassword, "the password is wrong, or the secret key file is damaged");
}

// The fields of a plain file are in the open already.
absl::Status CheckPlain(const SecretFields& fields) {
  if (sodium_is_zero(fields.at(kChecksumAt), kChecksumSize) == 1 || ChecksumHolds(fields)) return absl::OkStatus();
  return Refuse(Reason::kKeyFormat, "the secret key does not hash to the checksum in its file");
}

}  // namespace

std::string KeyIdText(const KeyId& id) { return FormatText("%016X", LoadNumber(id.data())); }

absl::StatusOr<PublicKey> ParsePublicKey(absl::string_view file) {
  return WithinMemory([&]() -> absl::StatusOr<PublicKey> {
    MESHSEAL_RETURN_IF_ERROR(StartSodium());
    std::array<uint8_t, kPublicKeyBytes> fields{};
    MESHSEAL_RETURN_IF_ERROR(DecodeKeyFile(file, kMaxPublicKeyFile, absl::MakeSpan(fields)));
    MESHSEAL_RETURN_IF_ERROR(CheckTag(fields.data(), kEd25519, "algorithm"));
    PublicKey key;
    std::copy_n(fields.begin() + 2, key.id.size(), key.id.begin());
    std::copy_n(fields.begin() + 10, key.point.size(), key.point.begin());
    if (crypto_core_ed25519_is_valid_point(key.point.data()) != 1) {
      return Refuse(Reason::kKeyFormat, "the public key is not one that Ed25519 can have");
    }
    return key;
  });
}

std::string PublicKeyFile(const PublicKey& key) {
  std::array<uint8_t, kPublicKeyBytes> fields{};
  Put(fields.data(), kEd25519);
  std::copy(key.id.begin(), key.id.end(), fields.begin() + 2);
  std::copy(key.point.begin(), key.point.end(), fields.begin() + 10);
  std::string text = absl::StrCat(kUntrustedCommentPrefix, "minisign public key ", KeyIdText(key.id), "\n");
  AppendBase64Line(fields, text);
  return text;
}

SecretText::SecretText(std::string&& text) {
  const absl::Cleanup wipe = [&text] { sodium_memzero(text.data(), text.size()); };  // also where memory is short
  text_.assign(text.begin(), text.end());
}

SecretText& SecretText::operator=(SecretText&& other) noexcept {
  if (this != &other) {
    Wipe();
    text_ = std::move(other.text_);
  }
  return *this;
}

void SecretText::Wipe() { sodium_memzero(text_.data(), text_.size()); }

void SecretKey::Free::operator()(Content* content) const { sodium_free(content); }  // wipes it first

absl::StatusOr<SecretKey::Pointer> SecretKey::Allocate() {
  MESHSEAL_RETURN_IF_ERROR(StartSodium());
  Pointer content(static_cast<Content*>(sodium_malloc(sizeof(Content))));
  if (content == nullptr) return Refuse(Reason::kKeyMemory, "memory for a secret key cannot be had");
  return content;
}

absl::StatusOr<SecretKey> SecretKey::Generate() {
  return WithinMemory([&]() -> absl::StatusOr<SecretKey> {
    MESHSEAL_ASSIGN_OR_RETURN(Pointer content, Allocate());
    randombytes_buf(content->id.data(), content->id.size());
    std::array<uint8_t, crypto_sign_PUBLICKEYBYTES> point{};  // also the second half of the key
    crypto_sign_keypair(point.data(), content->key.data());
    return SecretKey(std::move(content));
  });
}

absl::StatusOr<SecretKey> SecretKey::Parse(absl::string_view file, std::optional<absl::string_view> password) {
  return WithinMemory([&]() -> absl::StatusOr<SecretKey> {
    MESHSEAL_ASSIGN_OR_RETURN(Pointer content, Allocate());
    SecretFields fields;
    MESHSEAL_RETURN_IF_ERROR(DecodeKeyFile(file, kMaxSecretKeyFile, fields.span()));
    MESHSEAL_RETURN_IF_ERROR(CheckTag(fields.at(0), kEd25519, "algorithm"));
    MESHSEAL_RETURN_IF_ERROR(CheckTag(fields.at(kChecksumKindAt), kBlake2b, "checksum"));
    if (Holds(fields.at(kDerivationAt), kScrypt)) {
      if (!password.has_value())
        return Refuse(Reason::kKeyPassword, "the secret key needs a password, and none is given");
      MESHSEAL_RETURN_IF_ERROR(Uncover(*password, fields));
    } else if (Holds(fields.at(kDerivationAt), kNoDerivation)) {
      if (password.has_value()) return Refuse(Reason::kKeyPassword, "the secret key has no password, and one is given");
      MESHSEAL_RETURN_IF_ERROR(CheckPlain(fields));
    } else {
      return Refuse(Reason::kKeyFormat, absl::StrCat("the key's derivation is ", TagText(fields.at(kDerivationAt)),
                                                     ", expected 5363 ('Sc') or 0000 (no password)"));
    }

    // Signing with halves that do not belong together gives the secret away.
    std::array<uint8_t, crypto_sign_PUBLICKEYBYTES> point{};
    WipedBytes<crypto_sign_SECRETKEYBYTES> derived;
    crypto_sign_seed_keypair(point.data(), derived.at(0), fields.at(kKeyAt));
    if (sodium_memcmp(derived.at(0), fields.at(kKeyAt), crypto_sign_SECRETKEYBYTES) != 0) {
      return Refuse(Reason::kKeyFormat, "the public half of the secret key does not belong to it");
    }
    std::memcpy(content->id.data(), fields.at(kKeyIdAt), content->id.size());
    std::memcpy(content->key.data(), fields.at(kKeyAt), content->key.size());
    return SecretKey(std::move(content));
  });
}

absl::StatusOr<SecretText> SecretKey::Write(std::optional<absl::string_view> password, PasswordCost cost) const {
  return WithinMemory([&]() -> absl::StatusOr<SecretText> {
    SecretFields fields;
    Put(fields.at(0), kEd25519);
    Put(fields.at(kDerivationAt), kNoDerivation);
    Put(fields.at(kChecksumKindAt), kBlake2b);
    std::memcpy(fields.at(kKeyIdAt), content_->id.data(), content_->id.size());
    std::memcpy(fields.at(kKeyAt), content_->key.data(), content_->key.size());
    WipedBytes<kChecksumSize> checksum;
    ComputeChecksum(fields, checksum);
    std::memcpy(fields.at(kChecksumAt), checksum.at(0), kChecksumSize);
    if (password.has_value()) {
      if (password->empty()) return Refuse(Reason::kKeyPassword, "the password is empty");
      MESHSEAL_RETURN_IF_ERROR(CheckPassword(*password));
      const bool sensitive = cost == PasswordCost::kSensitive;
      Put(fields.at(kDerivationAt), kScrypt);
      randombytes_buf(fields.at(kSaltAt), kOperationsAt - kSaltAt);
      StoreNumber(fields.at(kOperationsAt),
                  sensitive ? kMaxOperations : crypto_pwhash_scryptsalsa208sha256_OPSLIMIT_INTERACTIVE);
      StoreNumber(fields.at(kMemoryAt),
                  sensitive ? kMaxMemory : crypto_pwhash_scryptsalsa208sha256_MEMLIMIT_INTERACTIVE);
      MESHSEAL_RETURN_IF_ERROR(Mask(*password, fields));
    }
    std::string text;
    text.reserve(kMaxSecretKeyFile);  // never moved while it grows
    absl::StrAppend(&text, kUntrustedCommentPrefix, "minisign ", password.has_value() ? "encrypted " : "",
                    "secret key\n");
    AppendBase64Line(fields.span(), text);
    return SecretText(std::move(text));
  });
}

PublicKey SecretKey::public_key() const {
  PublicKey key;
  key.id = content_->id;
  std::copy_n(content_->key.begin() + 32, key.point.size(), key.point.begin());
  return key;
}

Ed25519Signature SecretKey::Sign(absl::Span<const uint8_t> message) const {
  Ed25519Signature signature{};
  crypto_sign_detached(signature.data(), nullptr, message.data(), message.size(), content_->key.data());
  return signature;
}

}  // namespace meshseal
