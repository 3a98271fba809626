// HMAC-SHA256 (RFC 2104) through OpenSSL.
#ifndef MESHSEAL_SCHEMA_HMAC_SHA256_H_
#define MESHSEAL_SCHEMA_HMAC_SHA256_H_

#include "absl/strings/string_view.h"
#include "schema/sha256.h"

namespace meshseal {

// The tag of `message` under `key`. std::bad_alloc when OpenSSL gives none, as Sha256 does.
Sha256Digest HmacSha256(absl::string_view key, absl::string_view message);

// Whether two tags are the same, in a time that does not depend on where they differ.
bool EqualTags(const Sha256Digest& a, const Sha256Digest& b);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_HMAC_SHA256_H_
