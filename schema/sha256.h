// SHA-256 (FIPS 180-4) through OpenSSL, and digests as text.
#ifndef MESHSEAL_SCHEMA_SHA256_H_
#define MESHSEAL_SCHEMA_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace meshseal {

using Sha256Digest = std::array<uint8_t, 32>;

// The digest of `bytes`. std::bad_alloc when OpenSSL gives none: there is no digest that could stand for that.
Sha256Digest Sha256(absl::string_view bytes);

// 64 lower-case hexadecimal digits.
std::string HexOf(const Sha256Digest& digest);

// The digest that 64 lower-case hexadecimal digits write; nothing for any other text.
std::optional<Sha256Digest> DigestFromHex(absl::string_view hex);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_SHA256_H_
