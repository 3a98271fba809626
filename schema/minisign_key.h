// Ed25519 keys in the files of minisign (https://jedisct1.github.io/minisign), through libsodium.
//
// A public key file has two lines: an untrusted comment and the base64 of
//   "Ed" | key id (8) | public key (32)
// A secret key file has two lines: an untrusted comment and the base64 of
//   "Ed" | "Sc" or two zero bytes | "B2" | salt (32) | operations (8) | memory (8) | key id (8) | secret key (64) |
//   BLAKE2b-256 of "Ed", key id and secret key (32)
// where, with "Sc", everything from the key id on is xored with scrypt(password, salt, operations, memory).
//
// The files are the stock program's, to the byte; comments in them are checked for form and never shown.
#ifndef MESHSEAL_SCHEMA_MINISIGN_KEY_H_
#define MESHSEAL_SCHEMA_MINISIGN_KEY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schema/minisign_text.h"

namespace meshseal {

inline constexpr size_t kPublicKeyBytes = 2 + 8 + 32;
inline constexpr size_t kSecretKeyBytes = 3 * 2 + 32 + 8 + 8 + 8 + 64 + 32;
// The largest files that are read: nobody needs to load more.
inline constexpr size_t kMaxPublicKeyFile =
    kUntrustedCommentPrefix.size() + kMaxUntrustedComment + 1 + Base64Length(kPublicKeyBytes) + 1;
inline constexpr size_t kMaxSecretKeyFile =
    kUntrustedCommentPrefix.size() + kMaxUntrustedComment + 1 + Base64Length(kSecretKeyBytes) + 1;
// What the stock program can be given.
inline constexpr size_t kMaxPassword = 1022;

// Random, stored in a signature to find its key: a hint, it proves nothing.
using KeyId = std::array<uint8_t, 8>;
using Ed25519Signature = std::array<uint8_t, 64>;

// 16 upper-case hexadecimal digits, as the stock program shows it: a little-endian number.
std::string KeyIdText(const KeyId& id);

struct PublicKey {
  KeyId id{};
  std::array<uint8_t, 32> point{};

  friend bool operator==(const PublicKey&, const PublicKey&) = default;
};

// The key in a public key file. Refused too: bytes that no key pair can have. Reason: kKeyFormat.
absl::StatusOr<PublicKey> ParsePublicKey(absl::string_view file);

// The text of the public key file of `key`.
std::string PublicKeyFile(const PublicKey& key);

// Text that is wiped when it goes: the content of a secret key file, a password. Move-only.
class SecretText {
 public:
  // Copies `text` and overwrites it with zeros.
  explicit SecretText(std::string&& text);
  SecretText(SecretText&&) noexcept = default;
  SecretText& operator=(SecretText&& other) noexcept;
  ~SecretText() { Wipe(); }

  absl::string_view view() const { return {text_.data(), text_.size()}; }

 private:
  void Wipe();

  std::vector<char> text_;  // unlike a string it keeps nothing inside itself that a move would leave behind
};

// How hard a password is to guess from the file of a key: time and memory for each try.
enum class PasswordCost : uint8_t {
  kInteractive,  // 16 MiB, below 0.1 s
  kSensitive,    // 1 GiB, seconds: what the stock program uses
};

// A secret key, in memory of its own that is locked where the system allows it and wiped when the key goes.
// Move-only; const members may be called from several threads. A moved-from key may only be assigned or destroyed.
class SecretKey {
 public:
  // A new pair with a random key id. Reasons: kKeyMemory, kBug.
  static absl::StatusOr<SecretKey> Generate();

  // The key in a secret key file, with its password or with none. An encrypted key needs one and a plain one must not
  // be given any. Limits for scrypt above those of kSensitive are refused. A plain file has the checksum or zeros in
  // its place, as the stock program writes both. Reasons: kKeyFormat, kKeyPassword, kKeyMemory, kBug.
  static absl::StatusOr<SecretKey> Parse(absl::string_view file, std::optional<absl::string_view> password);

  SecretKey(SecretKey&&) noexcept = default;
  SecretKey& operator=(SecretKey&&) noexcept = default;
  SecretKey(const SecretKey&) = delete;
  SecretKey& operator=(const SecretKey&) = delete;
  ~SecretKey() = default;

  // The text of a secret key file, encrypted if there is a password. Reasons: kKeyPassword, kKeyMemory.
  absl::StatusOr<SecretText> Write(std::optional<absl::string_view> password,
                                   PasswordCost cost = PasswordCost::kSensitive) const;

  PublicKey public_key() const;

  // Plain Ed25519 over `message`.
  Ed25519Signature Sign(absl::Span<const uint8_t> message) const;

 private:
  struct Content {
    KeyId id;
    std::array<uint8_t, 64> key;  // seed, public key
  };
  struct Free {
    void operator()(Content* content) const;
  };
  using Pointer = std::unique_ptr<Content, Free>;
  explicit SecretKey(Pointer content) : content_(std::move(content)) {}
  static absl::StatusOr<Pointer> Allocate();

  Pointer content_;
};

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_MINISIGN_KEY_H_
