#include "schema/hmac_sha256.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <climits>
#include <new>

namespace meshseal {

Sha256Digest HmacSha256(absl::string_view key, absl::string_view message) {
  Sha256Digest tag{};
  unsigned int size = 0;
  // A null key would mean another thing than an empty one.
  const char* const bytes = key.empty() ? "" : key.data();
  if (key.size() > INT_MAX ||
      HMAC(EVP_sha256(), bytes, static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(message.data()),
           message.size(), tag.data(), &size) == nullptr ||
      size != tag.size()) {
    throw std::bad_alloc();
  }
  return tag;
}

bool EqualTags(const Sha256Digest& a, const Sha256Digest& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace meshseal
