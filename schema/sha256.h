// SHA-256 (FIPS 180-4) through OpenSSL, and digests as text.
#ifndef MESHSEAL_SCHEMA_SHA256_H_
#define MESHSEAL_SCHEMA_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX

namespace meshseal {

using Sha256Digest = std::array<uint8_t, 32>;

// The digest of `bytes`. std::bad_alloc when OpenSSL gives none: there is no digest that could stand for that.
Sha256Digest Sha256(absl::string_view bytes);

// The digest of bytes that come in pieces.
class Sha256Stream {
 public:
  Sha256Stream();
  void Update(const void* bytes, size_t size);
  // Called once, at the end. std::bad_alloc as above, here and in the constructor.
  Sha256Digest Finish();

 private:
  struct Freed {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Freed> context_;
};

// 64 lower-case hexadecimal digits.
std::string HexOf(const Sha256Digest& digest);

// The digest that 64 lower-case hexadecimal digits write; nothing for any other text.
std::optional<Sha256Digest> DigestFromHex(absl::string_view hex);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_SHA256_H_
