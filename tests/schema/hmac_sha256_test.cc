#include "schema/hmac_sha256.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

namespace meshseal {
namespace {

std::string Bytes(unsigned char first, size_t count, int step) {
  std::string bytes;
  for (size_t i = 0; i < count; ++i) bytes.push_back(static_cast<char>(first + step * static_cast<int>(i)));
  return bytes;
}

std::string Hex(const std::string& key, const std::string& message) { return HexOf(HmacSha256(key, message)); }

// The test cases of RFC 4231, section 4, without the fifth, which cuts the tag.
TEST(HmacSha256, PublishedVectors) {
  EXPECT_EQ(Hex(Bytes(0x0b, 20, 0), "Hi There"), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(Hex("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(Hex(Bytes(0xaa, 20, 0), Bytes(0xdd, 50, 0)),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  EXPECT_EQ(Hex(Bytes(0x01, 25, 1), Bytes(0xcd, 50, 0)),
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  EXPECT_EQ(Hex(Bytes(0xaa, 131, 0), "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(Hex(Bytes(0xaa, 131, 0),
                "This is a test using a larger than block-size key and a larger than block-size data. The key needs to "
                "be hashed before being used by the HMAC algorithm."),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
  // Of nothing under nothing.
  EXPECT_EQ(Hex("", ""), "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

TEST(EqualTags, AreEqualInEveryBit) {
  const Sha256Digest tag = HmacSha256("key", "message");
  EXPECT_TRUE(EqualTags(tag, tag));
  for (size_t bit = 0; bit < 8 * tag.size(); ++bit) {
    Sha256Digest other = tag;
    other[bit / 8] = static_cast<uint8_t>(other[bit / 8] ^ (1u << bit % 8));
    EXPECT_FALSE(EqualTags(tag, other)) << bit;
  }
}

}  // namespace
}  // namespace meshseal
