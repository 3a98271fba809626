#include "schema/sha256.h"

#include <gtest/gtest.h>

namespace meshseal {
namespace {

// The examples of FIPS 180-4's companion document.
TEST(Sha256, PublishedVectors) {
  EXPECT_EQ(HexOf(Sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(HexOf(Sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(HexOf(Sha256(std::string(1000000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(DigestFromHex, TakesExactlyWhatHexOfWrites) {
  const std::string hex = HexOf(Sha256("abc"));
  EXPECT_EQ(DigestFromHex(hex), Sha256("abc"));
  EXPECT_FALSE(DigestFromHex("").has_value());
  EXPECT_FALSE(DigestFromHex(hex.substr(1)).has_value());
  EXPECT_FALSE(DigestFromHex(hex + "0").has_value());
  std::string upper = hex;
  upper[0] = 'B';
  EXPECT_FALSE(DigestFromHex(upper).has_value());
  std::string other = hex;
  other[5] = 'g';
  EXPECT_FALSE(DigestFromHex(other).has_value());
  other[5] = ' ';
  EXPECT_FALSE(DigestFromHex(other).has_value());
}

}  // namespace
}  // namespace meshseal
