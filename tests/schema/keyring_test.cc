// The keyring: every file of the folder is understood, or the whole of it is refused.
#include "schema/keyring.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schema/quoted_name.h"
#include "schema/reason.h"

namespace meshseal {
namespace {

std::string PublicFile(const SecretKey& key) { return PublicKeyFile(key.public_key()); }

std::string RefusalOf(const std::vector<KeyringFile>& files) {
  const absl::Status status = ParseKeyring(files).status();
  EXPECT_EQ(ReasonOf(status), Reason::kKeyring);
  return std::string(status.message());
}

TEST(Keyring, HoldsKeysSerialsAndRevokedPlans) {
  const SecretKey a = *SecretKey::Generate();
  const SecretKey b = *SecretKey::Generate();
  const Sha256Digest plan = Sha256("a plan");
  const absl::StatusOr<Keyring> keyring = ParseKeyring({
      {"a.pub", PublicFile(a)},
      {"b.c.pub", PublicFile(b)},
      {"min-serials", "# why\n\n0 one\n18446744073709551615 two words\n7 no line end"},
      {"revoked-plans", absl::StrCat("#\n", HexOf(plan), "\n")},
  });
  ASSERT_TRUE(keyring.ok()) << keyring.status();
  ASSERT_EQ(keyring->keys.size(), 2u);
  EXPECT_EQ(keyring->keys[0].name, "a");
  EXPECT_EQ(keyring->keys[0].key, a.public_key());
  EXPECT_EQ(keyring->keys[1].name, "b.c");
  EXPECT_EQ(keyring->keys[1].key, b.public_key());
  ASSERT_EQ(keyring->min_serials.size(), 3u);
  EXPECT_EQ(keyring->min_serials[0].stream, StreamOf("one"));
  EXPECT_EQ(keyring->min_serials[0].min_serial, 0u);
  EXPECT_EQ(keyring->min_serials[1].stream, StreamOf("two words"));
  EXPECT_EQ(keyring->min_serials[1].min_serial, ~uint64_t{0});
  EXPECT_EQ(keyring->min_serials[2].stream, StreamOf("no line end"));
  ASSERT_EQ(keyring->revoked_plans.size(), 1u);
  EXPECT_EQ(keyring->revoked_plans[0], plan);
}

TEST(Keyring, WhatIsNotUnderstoodIsRefused) {
  const SecretKey key = *SecretKey::Generate();
  const KeyringFile good = {"a.pub", PublicFile(key)};
  const auto with = [&good](std::string name, std::string text) {
    return RefusalOf({good, {std::move(name), std::move(text)}});
  };
  EXPECT_EQ(RefusalOf({}), "no NAME.pub: nobody is trusted");
  EXPECT_EQ(RefusalOf({{"min-serials", "1 a\n"}}), "no NAME.pub: nobody is trusted");
  for (const char* name :
       {"a.PUB", "pub", ".pub", "a.pub~", "min-serial", "Min-serials", "revoked-plans.txt", ".hidden"}) {
    EXPECT_EQ(with(name, ""), absl::StrCat("'", name, "': a keyring holds NAME.pub, min-serials and revoked-plans"));
  }
  EXPECT_EQ(with("b.pub", good.text),
            absl::StrCat("b.pub: key ", KeyIdText(key.public_key().id), " is also that of a.pub"));
  EXPECT_EQ(with("b.pub", std::string(kMaxPublicKeyFile + 1, 'x')),
            absl::StrCat("b.pub: ", kMaxPublicKeyFile + 1, " bytes, expected at most ", kMaxPublicKeyFile));
  EXPECT_EQ(with("min-serials", std::string(kMaxKeyringList + 1, '\n')),
            "min-serials: 1048577 bytes, expected at most 1048576");
  for (const char* line : {"1", "1 ", " 1 a", "-1 a", "+1 a", "1.0 a", "0x1 a", "18446744073709551616 a", "1\ta",
                           "1  a", "1 a ", "1 a\r", "1 a\tb", "1 a\x7f"}) {
    EXPECT_EQ(with("min-serials", absl::StrCat("0 b\n", line, "\n")),
              absl::StrCat("min-serials:2: expected a serial and the name of a deployment, found ", QuotedName(line)));
  }
  EXPECT_EQ(with("min-serials", "1 a\n2 b\n1 a\n"), "min-serials:3: a second serial for 'a'");
  const std::string id = HexOf(Sha256("a plan"));
  EXPECT_EQ(with("revoked-plans", id.substr(1)),
            absl::StrCat("revoked-plans:1: expected a plan id, found '", id.substr(1), "'"));
  EXPECT_EQ(with("revoked-plans", absl::StrCat(id, "\r\n")),
            absl::StrCat("revoked-plans:1: expected a plan id, found '", id, "\\r'"));
  EXPECT_EQ(with("b.pub", "untrusted comment: x\n").substr(0, 7), "b.pub: ");
}

TEST(Keyring, IsReadFromItsFolder) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / absl::StrCat("meshseal-keyring-", ::getpid());
  std::filesystem::create_directory(folder);
  const SecretKey key = *SecretKey::Generate();
  const auto write = [&folder](const std::string& name, const std::string& text) {
    std::ofstream(folder / name, std::ios::binary) << text;
  };
  const auto refusal = [&folder] {
    const absl::Status status = ReadKeyring(folder).status();
    EXPECT_EQ(ReasonOf(status), Reason::kKeyring);
    return std::string(status.message());
  };
  const std::string led = absl::StrCat("keyring ", folder.string(), ": ");
  EXPECT_EQ(refusal(), led + "no NAME.pub: nobody is trusted");
  write("build-key.pub", PublicFile(key));
  write("min-serials", "3 x\n");
  const absl::StatusOr<Keyring> keyring = ReadKeyring(folder);
  ASSERT_TRUE(keyring.ok()) << keyring.status();
  ASSERT_EQ(keyring->keys.size(), 1u);
  EXPECT_EQ(keyring->keys[0].name, "build-key");
  EXPECT_EQ(keyring->min_serials.size(), 1u);
  write("notes", "who is who");
  EXPECT_EQ(refusal(), led + "'notes': a keyring holds NAME.pub, min-serials and revoked-plans");
  std::filesystem::remove(folder / "notes");
  std::filesystem::create_directory(folder / "old.pub");
  EXPECT_EQ(refusal(), absl::StrCat("keyring: ", (folder / "old.pub").string(), ": not a regular file"));
  const absl::Status absent = ReadKeyring(folder / "absent").status();
  EXPECT_EQ(ReasonOf(absent), Reason::kKeyring);
  EXPECT_EQ(absent.message(), absl::StrCat("keyring ", (folder / "absent").string(), ": No such file or directory"));
  EXPECT_EQ(ReasonOf(ReadKeyring(folder / "build-key.pub").status()), Reason::kKeyring);
  for (size_t i = 0; i < kMaxKeyringFiles; ++i) write(absl::StrCat("more-", i), "");
  EXPECT_EQ(refusal(), led + "more than 1000 files");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace meshseal
