#include "schema/sha256.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <new>

namespace meshseal {
namespace {

// Looked up once: OpenSSL would do it for each digest.
const EVP_MD* Method() {
  static const EVP_MD* const kMethod = [] {
    const EVP_MD* method = EVP_MD_fetch(nullptr, "SHA256", nullptr);
    if (method == nullptr) throw std::bad_alloc();
    return method;
  }();
  return kMethod;
}

}  // namespace

Sha256Digest Sha256(absl::string_view bytes) {
  Sha256Digest digest{};
  // It takes memory for its context, and leaves the digest alone when there is none.
  if (SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data()) == nullptr) {
    throw std::bad_alloc();
  }
  return digest;
}

void Sha256Stream::Freed::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256Stream::Sha256Stream() : context_(EVP_MD_CTX_new()) {
  if (context_ == nullptr || EVP_DigestInit_ex(context_.get(), Method(), nullptr) != 1) throw std::bad_alloc();
}

void Sha256Stream::Update(const void* bytes, size_t size) {
  if (EVP_DigestUpdate(context_.get(), bytes, size) != 1) throw std::bad_alloc();
}

Sha256Digest Sha256Stream::Finish() {
  Sha256Digest digest{};
  if (EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr) != 1) throw std::bad_alloc();
  return digest;
}

std::string HexOf(const Sha256Digest& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * digest.size());
  for (const uint8_t byte : digest) {
    hex.push_back(kDigits[byte >> 4]);
    hex.push_back(kDigits[byte & 15]);
  }
  return hex;
}

std::optional<Sha256Digest> DigestFromHex(absl::string_view hex) {
  Sha256Digest digest{};
  if (hex.size() != 2 * digest.size()) return std::nullopt;
  for (size_t i = 0; i < hex.size(); ++i) {
    const char c = hex[i];
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return std::nullopt;
    digest[i / 2] = static_cast<uint8_t>(digest[i / 2] * 16 + digit);
  }
  return digest;
}

}  // namespace meshseal
