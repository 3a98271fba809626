// Keys and signatures of minisign: what the stock program wrote is read, what we write is the same, and nothing that
// differs by a single byte outside the untrusted comment gets past.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "schema/minisign_key.h"
#include "schema/minisign_signature.h"
#include "schema/minisign_text.h"
#include "schema/reason.h"
#include "tests/support/sanitized.h"

namespace meshseal {
namespace {

static_assert(!std::is_copy_constructible_v<SecretKey> && !std::is_copy_assignable_v<SecretKey>);
static_assert(std::is_nothrow_move_constructible_v<SecretKey> && std::is_nothrow_move_assignable_v<SecretKey>);
static_assert(!std::is_copy_constructible_v<SecretText> && !std::is_copy_assignable_v<SecretText>);
static_assert(std::is_nothrow_move_constructible_v<SecretText> && std::is_nothrow_move_assignable_v<SecretText>);

constexpr absl::string_view kPassword = "correct horse";
constexpr absl::string_view kPlainComment = "timestamp:1795999337\tfile:message.bin\thashed";

std::string Data(const std::string& name) {
  std::ifstream stream(absl::StrCat(MESHSEAL_TEST_DATA "/minisign/", name), std::ios::binary);
  EXPECT_TRUE(stream.good()) << name;
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// "reason-slug | text", or "accepted".
std::string VerdictOf(const absl::Status& status) {
  if (status.ok()) return "accepted";
  const std::optional<Reason> reason = ReasonOf(status);
  return absl::StrCat(reason.has_value() ? RowOf(*reason).slug : "no reason", " | ", status.message());
}

absl::StatusOr<std::string> Verify(absl::string_view signature, absl::string_view file, const PublicKey& key) {
  const absl::StatusOr<DetachedSignature> parsed = DetachedSignature::Parse(signature);
  if (!parsed.ok()) return parsed.status();
  return parsed->Verify(file, key);
}

std::string Verdict(absl::string_view signature, absl::string_view file, const PublicKey& key) {
  return VerdictOf(Verify(signature, file, key).status());
}

PublicKey PublicOf(const std::string& name) { return *ParsePublicKey(Data(name)); }
SecretKey SecretOf(const std::string& name) { return *SecretKey::Parse(Data(name), std::nullopt); }

std::vector<std::string> Lines(const std::string& text) { return absl::StrSplit(text, '\n'); }
std::string Joined(const std::vector<std::string>& lines) { return absl::StrJoin(lines, "\n"); }

// The bytes behind line 2 of a key or signature file, and a file with others there.
std::string Fields(const std::string& file) {
  std::string fields;
  EXPECT_TRUE(absl::Base64Unescape(Lines(file)[1], &fields));
  return fields;
}
std::string WithFields(const std::string& file, const std::string& fields) {
  std::vector<std::string> lines = Lines(file);
  lines[1] = absl::Base64Escape(fields);
  return Joined(lines);
}
std::string WithField(const std::string& file, size_t at, const std::string& bytes) {
  return WithFields(file, Fields(file).replace(at, bytes.size(), bytes));
}

std::string PublicVerdict(absl::string_view file) { return VerdictOf(ParsePublicKey(file).status()); }
std::string SecretVerdict(absl::string_view file, std::optional<absl::string_view> password) {
  return VerdictOf(SecretKey::Parse(file, password).status());
}

TEST(Minisign, StockSignaturesVerify) {
  const std::string message = Data("message.bin");
  const absl::StatusOr<std::string> plain = Verify(Data("plain.minisig"), message, PublicOf("plain.pub"));
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(*plain, kPlainComment);
  const absl::StatusOr<std::string> password = Verify(Data("password.minisig"), message, PublicOf("password.pub"));
  ASSERT_TRUE(password.ok()) << password.status();
  EXPECT_EQ(*password, "serial 7, größer als 6");
}

TEST(Minisign, SignsByteForByteAsTheStockProgramDoes) {
  const absl::StatusOr<std::string> ours = SignDetached(Data("message.bin"), SecretOf("plain.key"), kPlainComment);
  ASSERT_TRUE(ours.ok()) << ours.status();
  std::vector<std::string> expected = Lines(Data("plain.minisig"));
  expected[0] = "untrusted comment: signature by key 177D2825347ABD01";
  EXPECT_EQ(*ours, Joined(expected));
}

TEST(Minisign, StockKeysAreRead) {
  const PublicKey plain = PublicOf("plain.pub");
  EXPECT_EQ(KeyIdText(plain.id), "177D2825347ABD01");
  EXPECT_EQ(PublicKeyFile(plain), Data("plain.pub"));
  EXPECT_EQ(SecretOf("plain.key").public_key(), plain);
  const PublicKey password = PublicOf("password.pub");
  EXPECT_EQ(SecretOf("removed.key").public_key(), password);
  const absl::StatusOr<SecretKey> encrypted = SecretKey::Parse(Data("password.key"), kPassword);
  ASSERT_TRUE(encrypted.ok()) << encrypted.status();
  EXPECT_EQ(encrypted->public_key(), password);
  const absl::StatusOr<std::string> ours = SignDetached(Data("message.bin"), *encrypted, "serial 7, größer als 6");
  ASSERT_TRUE(ours.ok());
  EXPECT_EQ(Lines(*ours)[3], Lines(Data("password.minisig"))[3]);
}

TEST(Minisign, KeyIdsHaveSixteenDigits) {
  EXPECT_EQ(KeyIdText(KeyId{0x0a, 0xbc, 0, 0, 0, 0, 0, 0}), "000000000000BC0A");
}

TEST(Minisign, NewKeysSignAndComeBackFromTheirFiles) {
  const absl::StatusOr<SecretKey> key = SecretKey::Generate();
  ASSERT_TRUE(key.ok()) << key.status();
  const PublicKey public_key = key->public_key();
  EXPECT_EQ(*ParsePublicKey(PublicKeyFile(public_key)), public_key);
  EXPECT_NE(SecretKey::Generate()->public_key().id, public_key.id);
  EXPECT_NE(SecretKey::Generate()->public_key().point, public_key.point);

  const absl::StatusOr<SecretText> plain = key->Write(std::nullopt);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_TRUE(absl::StartsWith(plain->view(), "untrusted comment: minisign secret key\nRWQAAEIy"));
  EXPECT_EQ(Fields(std::string(plain->view())).substr(6, 48), std::string(48, '\0'));
  EXPECT_NE(Fields(std::string(plain->view())).substr(126), std::string(32, '\0'));
  const absl::StatusOr<SecretText> encrypted = key->Write(kPassword, PasswordCost::kInteractive);
  ASSERT_TRUE(encrypted.ok()) << encrypted.status();
  EXPECT_TRUE(absl::StartsWith(encrypted->view(), "untrusted comment: minisign encrypted secret key\nRWRTY0Iy"));
  EXPECT_NE(Fields(std::string(encrypted->view())).substr(54), Fields(std::string(plain->view())).substr(54));

  const absl::StatusOr<SecretKey> from_plain = SecretKey::Parse(plain->view(), std::nullopt);
  const absl::StatusOr<SecretKey> from_encrypted = SecretKey::Parse(encrypted->view(), kPassword);
  ASSERT_TRUE(from_plain.ok()) << from_plain.status();
  ASSERT_TRUE(from_encrypted.ok()) << from_encrypted.status();
  const std::string first = *SignDetached("a plan", *key, "seven");
  EXPECT_EQ(*SignDetached("a plan", *from_plain, "seven"), first);
  EXPECT_EQ(*SignDetached("a plan", *from_encrypted, "seven"), first);
  EXPECT_EQ(*Verify(first, "a plan", public_key), "seven");
  EXPECT_EQ(DetachedSignature::Parse(first)->key_id(), public_key.id);
  EXPECT_EQ(*Verify(*SignDetached("", *key, ""), "", public_key), "");

  // The salt is fresh each time.
  EXPECT_NE(key->Write(kPassword, PasswordCost::kInteractive)->view(), encrypted->view());
}

TEST(Minisign, PasswordsAreHashedAsTheStockProgramDoesUnlessToldOtherwise) {
  const absl::StatusOr<SecretText> file = SecretOf("plain.key").Write(kPassword);
  ASSERT_TRUE(file.ok()) << file.status();
  // 2^25 operations, 2^30 bytes.
  EXPECT_EQ(absl::BytesToHexString(Fields(std::string(file->view())).substr(38, 16)),
            "00000002000000000000004000000000");
}

TEST(Minisign, SecretsMoveAndAreWiped) {
  std::string source = "long enough to live on the heap, as every secret key file does";
  const std::string copy = source;
  SecretText text(std::move(source));
  EXPECT_EQ(source, std::string(copy.size(), '\0'));  // NOLINT(bugprone-use-after-move): overwritten, as promised
  SecretText moved(std::move(text));
  EXPECT_EQ(moved.view(), copy);
  SecretText assigned(std::string("short"));
  assigned = std::move(moved);
  EXPECT_EQ(assigned.view(), copy);
  SecretText& itself = assigned;
  assigned = std::move(itself);
  EXPECT_EQ(assigned.view(), copy);

  SecretKey key = SecretOf("plain.key");
  SecretKey other = SecretOf("removed.key");
  other = std::move(key);
  EXPECT_EQ(other.public_key(), PublicOf("plain.pub"));
}

TEST(Minisign, ASignatureIsOfOneKeyOneFileAndOneComment) {
  const std::string message = Data("message.bin");
  const std::string signature = Data("plain.minisig");
  const PublicKey key = PublicOf("plain.pub");
  EXPECT_EQ(Verdict(signature, message, PublicOf("password.pub")),
            "signature.key | the signature is by key 177D2825347ABD01, not by key 42603606EB571326");
  PublicKey same_id = PublicOf("password.pub");
  same_id.id = key.id;
  EXPECT_EQ(Verdict(signature, message, same_id),
            "signature.bytes | the signature is not one of key 177D2825347ABD01 over the bytes of this file");
  EXPECT_EQ(Verdict(signature, message + "x", key),
            "signature.bytes | the signature is not one of key 177D2825347ABD01 over the bytes of this file");
  EXPECT_EQ(Verdict(signature, "", key),
            "signature.bytes | the signature is not one of key 177D2825347ABD01 over the bytes of this file");

  std::vector<std::string> lines = Lines(signature);
  lines[2] = "trusted comment: serial 8";
  EXPECT_EQ(Verdict(Joined(lines), message, key),
            "signature.trusted-comment | the trusted comment is not signed by key 177D2825347ABD01");
  // A comment that the key did sign, but for another file.
  const std::vector<std::string> other = Lines(*SignDetached("other", SecretOf("plain.key"), "serial 8"));
  lines[2] = other[2];
  lines[3] = other[3];
  EXPECT_EQ(Verdict(Joined(lines), message, key),
            "signature.trusted-comment | the trusted comment is not signed by key 177D2825347ABD01");
}

TEST(Minisign, OnlyPrehashedSignaturesAreAccepted) {
  const std::string message = Data("message.bin");
  const PublicKey key = PublicOf("plain.pub");
  EXPECT_EQ(Verdict(Data("legacy.minisig"), message, key),
            "signature.algorithm | the signature is of the legacy kind 'Ed', without a hash of the file; only 'ED' is "
            "accepted");
  const std::string signature = Data("plain.minisig");
  EXPECT_EQ(Verdict(WithField(signature, 0, "ed"), message, key),
            "signature.algorithm | the signature's algorithm is 6564, expected 4544 ('ED')");
  EXPECT_EQ(Verdict(WithField(signature, 0, "Ed"), message, key), Verdict(Data("legacy.minisig"), message, key));
  // Relabelling does not make a legacy signature one over the hash.
  EXPECT_EQ(Verdict(WithField(Data("legacy.minisig"), 0, "ED"), message, key),
            "signature.bytes | the signature is not one of key 177D2825347ABD01 over the bytes of this file");
}

TEST(Minisign, AScalarThatIsNotReducedIsRefused) {
  // The order of the group, little-endian: adding it to the second half of a signature changes nothing but the bytes.
  const std::string order = absl::HexStringToBytes("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
  std::string fields = Fields(Data("plain.minisig"));
  unsigned carry = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    char& byte = fields[42 + i];
    carry += static_cast<uint8_t>(byte) + static_cast<unsigned>(static_cast<uint8_t>(order[i]));
    byte = static_cast<char>(carry & 0xff);
    carry >>= 8;
  }
  EXPECT_EQ(Verdict(WithFields(Data("plain.minisig"), fields), Data("message.bin"), PublicOf("plain.pub")),
            "signature.bytes | the signature is not one of key 177D2825347ABD01 over the bytes of this file");
}

TEST(Minisign, EveryChangedByteOfASignatureFileIsRefusedOutsideTheUntrustedComment) {
  const std::string message = Data("message.bin");
  const std::string signature = Data("plain.minisig");
  const PublicKey key = PublicOf("plain.pub");
  const size_t comment_begin = kUntrustedCommentPrefix.size();
  const size_t comment_end = signature.find('\n');
  size_t tried = 0;
  size_t refused = 0;
  size_t comment_accepted = 0;
  for (size_t at = 0; at < signature.size(); ++at) {
    const bool in_comment = at >= comment_begin && at < comment_end;
    for (int change = 1; change < 256; ++change) {
      std::string changed = signature;
      changed[at] = static_cast<char>(changed[at] ^ change);
      const absl::Status status = Verify(changed, message, key).status();
      if (in_comment) {
        comment_accepted += status.ok() ? 1u : 0u;
        continue;
      }
      ++tried;
      const std::optional<Reason> reason = ReasonOf(status);
      const bool counted = reason.has_value() && absl::StartsWith(RowOf(*reason).slug, "signature.");
      EXPECT_TRUE(counted) << "byte " << at << " change " << change << ": " << status;
      refused += counted ? 1u : 0u;
    }
  }
  std::cout << refused << " of " << tried << " changes refused\n";
  EXPECT_EQ(refused, tried);
  EXPECT_EQ(tried, (306 - 34) * 255u);
  EXPECT_EQ(comment_accepted, 34 * 95u);  // one printable ASCII character or tab for another
}

TEST(Minisign, EveryFlippedBitOfTheFileIsRefused) {
  const std::string message = Data("message.bin");
  const DetachedSignature signature = *DetachedSignature::Parse(Data("plain.minisig"));
  const PublicKey key = PublicOf("plain.pub");
  size_t refused = 0;
  for (size_t bit = 0; bit < 8 * message.size(); ++bit) {
    std::string changed = message;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    refused += ReasonOf(signature.Verify(changed, key).status()) == Reason::kSignatureBytes ? 1u : 0u;
  }
  std::cout << refused << " of " << 8 * message.size() << " flips refused\n";
  EXPECT_EQ(refused, 8 * message.size());
}

TEST(Minisign, TruncationsDeletionsAndInsertionsAreRefused) {
  const std::string message = Data("message.bin");
  const std::string signature = Data("plain.minisig");
  const PublicKey key = PublicOf("plain.pub");
  const size_t comment_begin = kUntrustedCommentPrefix.size();
  const size_t comment_end = signature.find('\n');
  size_t tried = 0;
  size_t refused = 0;
  const auto count = [&](const std::string& changed) {
    if (changed == signature) return;
    ++tried;
    const bool no = !Verify(changed, message, key).ok();
    EXPECT_TRUE(no) << absl::CHexEscape(changed);
    refused += no ? 1u : 0u;
  };
  for (size_t at = 0; at <= signature.size(); ++at) {
    count(signature.substr(0, at));
    count(signature.substr(at));
    if (at >= comment_begin && at <= comment_end) continue;
    count(std::string(signature).erase(at, 1));
    for (const char c : {'\0', '\t', '\n', '\r', ' ', '=', 'A', '/', '\xaf'}) {
      if (at + 1 == comment_begin && c == ' ') continue;  // the comment then starts with a space
      count(std::string(signature).insert(at, 1, c));
    }
  }
  std::cout << refused << " of " << tried << " truncations, deletions and insertions refused\n";
  EXPECT_EQ(refused, tried);
}

TEST(Minisign, SignatureFilesHaveExactlyFourLines) {
  const std::string message = Data("message.bin");
  const std::string signature = Data("plain.minisig");
  const PublicKey key = PublicOf("plain.pub");
  const auto verdict = [&](const std::string& text) { return Verdict(text, message, key); };
  EXPECT_EQ(verdict(""), "signature.format | the file has 0 lines, expected 4");
  EXPECT_EQ(verdict(signature + "\n"), "signature.format | the file has 5 lines, expected 4");
  EXPECT_EQ(verdict(signature + "x"), "signature.format | the file has 5 lines, expected 4");
  EXPECT_EQ(verdict(signature + signature), "signature.format | the file has 8 lines, expected 4");
  EXPECT_EQ(verdict(signature.substr(0, signature.size() - 1)),
            "signature.format | the last line of the file does not end with a line feed");
  EXPECT_EQ(verdict(absl::StrReplaceAll(signature, {{"\n", "\r\n"}})),
            "signature.format | the file has a carriage return; its lines end with a line feed alone");
  EXPECT_EQ(verdict(std::string(9405, 'x')), "signature.format | the file has 9405 bytes, at most 9404 are read");
  EXPECT_EQ(verdict("\xef\xbb\xbf" + signature), "signature.format | line 1 does not start with 'untrusted comment: '");
  const std::vector<std::string> lines = Lines(signature);
  for (size_t i = 0; i < 4; ++i) {
    std::vector<std::string> doubled = lines;
    doubled.insert(doubled.begin() + static_cast<std::ptrdiff_t>(i), lines[i]);
    EXPECT_EQ(verdict(Joined(doubled)), "signature.format | the file has 5 lines, expected 4");
  }
  std::vector<std::string> changed = lines;
  changed[2] = changed[0];
  EXPECT_EQ(verdict(Joined(changed)), "signature.format | line 3 does not start with 'trusted comment: '");
  changed = lines;
  changed[3] = changed[1];
  EXPECT_EQ(verdict(Joined(changed)), "signature.format | line 4 has 100 characters, expected 88 of base64");
}

TEST(Minisign, Base64IsCanonical) {
  const std::string message = Data("message.bin");
  const PublicKey key = PublicOf("plain.pub");
  const std::vector<std::string> lines = Lines(Data("plain.minisig"));
  const auto verdict = [&](size_t line, size_t at, char c) {
    std::vector<std::string> changed = lines;
    changed[line][at] = c;
    return Verdict(Joined(changed), message, key);
  };
  for (const char c : {' ', '-', '_', '\t', '=', '\xaf', '\0'}) {
    EXPECT_EQ(verdict(1, 50, c), "signature.format | line 2 has at character 51 no base64 digit");
    EXPECT_EQ(verdict(3, 85, c), "signature.format | line 4 has at character 86 no base64 digit");
  }
  EXPECT_EQ(verdict(1, 99, 'A'), "signature.format | line 2 has at character 100 no base64 padding");
  EXPECT_EQ(verdict(3, 86, 'A'), "signature.format | line 4 has at character 87 no base64 padding");
  ASSERT_EQ(lines[1].substr(98), "o=");
  EXPECT_EQ(verdict(1, 98, 'p'), "signature.format | line 2 has bits after its last byte that are not zero");
  ASSERT_EQ(lines[3].substr(85), "g==");
  EXPECT_EQ(verdict(3, 85, 'h'), "signature.format | line 4 has bits after its last byte that are not zero");
  std::vector<std::string> changed = lines;
  changed[1].pop_back();
  EXPECT_EQ(Verdict(Joined(changed), message, key),
            "signature.format | line 2 has 99 characters, expected 100 of base64");
}

TEST(Minisign, CommentsArePrintableAndBounded) {
  const std::string message = Data("message.bin");
  const PublicKey key = PublicOf("plain.pub");
  const SecretKey secret = SecretOf("plain.key");
  const auto untrusted = [&](const std::string& comment) {
    std::vector<std::string> lines = Lines(Data("plain.minisig"));
    lines[0] = absl::StrCat(kUntrustedCommentPrefix, comment);
    return Verdict(Joined(lines), message, key);
  };
  const auto trusted = [&](const std::string& comment) {
    std::vector<std::string> lines = Lines(Data("plain.minisig"));
    lines[2] = absl::StrCat(kTrustedCommentPrefix, comment);
    return Verdict(Joined(lines), message, key);
  };
  const auto sign = [&](const std::string& comment) {
    return VerdictOf(SignDetached(message, secret, comment).status());
  };
  EXPECT_EQ(untrusted(""), "accepted");
  EXPECT_EQ(untrusted("tab\t and größer"), "accepted");
  EXPECT_EQ(untrusted(std::string(1003, 'a')), "accepted");
  EXPECT_EQ(untrusted(std::string(1004, 'a')),
            "signature.comment | the untrusted comment has 1004 bytes, at most 1003 are allowed");
  EXPECT_EQ(untrusted("ab\x1b[2J"), "signature.comment | the untrusted comment has a control character at its byte 3");
  EXPECT_EQ(untrusted("ab\xff"), "signature.comment | the untrusted comment is not UTF-8 at its byte 3");
  const std::string longest(8173, 'a');
  EXPECT_EQ(*Verify(*SignDetached(message, secret, longest), message, key), longest);
  const std::vector<std::pair<std::string, std::string>> refused = {
      {longest + "a", "signature.comment | the trusted comment has 8174 bytes, at most 8173 are allowed"},
      {"\x1f", "signature.comment | the trusted comment has a control character at its byte 1"},
      {"a\x7f", "signature.comment | the trusted comment has a control character at its byte 2"},
      {"ab\xc2\x9b", "signature.comment | the trusted comment has a control character at its byte 3"},
      {"\xc0\x80", "signature.comment | the trusted comment is not UTF-8 at its byte 1"},
      {std::string(1, '\0'), "signature.comment | the trusted comment has a control character at its byte 1"},
  };
  for (const auto& [comment, verdict] : refused) {
    EXPECT_EQ(trusted(comment), verdict);
    EXPECT_EQ(sign(comment), verdict);
  }
  EXPECT_EQ(sign("two\nlines"), "signature.comment | the trusted comment has a control character at its byte 4");
}

TEST(Minisign, EveryChangedByteOfAPublicKeyIsRefusedOrAnotherKey) {
  const std::string file = Data("plain.pub");
  const std::string message = Data("message.bin");
  const DetachedSignature signature = *DetachedSignature::Parse(Data("plain.minisig"));
  const PublicKey key = PublicOf("plain.pub");
  size_t tried = 0;
  size_t refused = 0;
  size_t another = 0;
  for (size_t at = file.find('\n'); at < file.size(); ++at) {
    for (int change = 1; change < 256; ++change) {
      ++tried;
      std::string changed = file;
      changed[at] = static_cast<char>(changed[at] ^ change);
      const absl::StatusOr<PublicKey> parsed = ParsePublicKey(changed);
      if (!parsed.ok()) {
        EXPECT_EQ(ReasonOf(parsed.status()), Reason::kKeyFormat);
        ++refused;
      } else {
        EXPECT_NE(*parsed, key);
        another += signature.Verify(message, *parsed).ok() ? 0u : 1u;
      }
    }
  }
  std::cout << refused << " refused and " << another << " other keys, of " << tried << " changes\n";
  EXPECT_EQ(refused + another, tried);
  EXPECT_GT(refused, 0u);
}

TEST(Minisign, PublicKeyFilesAreStrict) {
  const std::string file = Data("plain.pub");
  const std::vector<std::string> lines = Lines(file);
  EXPECT_EQ(PublicVerdict(""), "key.format | the file has 0 lines, expected 2");
  EXPECT_EQ(PublicVerdict(lines[1]), "key.format | the file has 1 line, expected 2");
  EXPECT_EQ(PublicVerdict(file + file), "key.format | the file has 4 lines, expected 2");
  EXPECT_EQ(PublicVerdict(file.substr(0, file.size() - 1)),
            "key.format | the last line of the file does not end with a line feed");
  EXPECT_EQ(PublicVerdict(absl::StrReplaceAll(file, {{"\n", "\r\n"}})),
            "key.format | the file has a carriage return; its lines end with a line feed alone");
  EXPECT_EQ(PublicVerdict(std::string(1081, 'x')), "key.format | the file has 1081 bytes, at most 1080 are read");
  EXPECT_EQ(PublicVerdict("comment\n" + lines[1] + "\n"),
            "key.format | line 1 does not start with 'untrusted comment: '");
  EXPECT_EQ(PublicVerdict("untrusted comment: \x01\n" + lines[1] + "\n"),
            "key.format | the untrusted comment has a control character at its byte 1");
  EXPECT_EQ(PublicVerdict(Data("plain.key")), "key.format | line 2 has 212 characters, expected 56 of base64");
  EXPECT_EQ(PublicVerdict(Data("plain.minisig")), "key.format | the file has 4 lines, expected 2");
  EXPECT_EQ(PublicVerdict(WithField(file, 0, "ED")), "key.format | the key's algorithm is 4544, expected 4564 ('Ed')");
  EXPECT_EQ(PublicVerdict(lines[0] + "\n" + lines[1].substr(0, 55) + " \n"),
            "key.format | line 2 has at character 56 no base64 digit");
  for (size_t size = 0; size < file.size(); ++size) EXPECT_FALSE(ParsePublicKey(file.substr(0, size)).ok()) << size;
}

TEST(Minisign, PublicKeysThatNoPairHasAreRefused) {
  const std::vector<std::string> points = {
      std::string(32, '\0'),                                                      // order 4
      std::string("\x01", 1) + std::string(31, '\0'),                             // the neutral element
      std::string(32, '\xff'),                                                    // not canonical
      std::string("\xec", 1) + std::string(30, '\xff') + std::string("\x7f", 1),  // order 2
      std::string("\x02", 1) + std::string(31, '\0'),                             // not on the curve
  };
  for (const std::string& point : points) {
    EXPECT_EQ(PublicVerdict(WithField(Data("plain.pub"), 10, point)),
              "key.format | the public key is not one that Ed25519 can have");
  }
}

TEST(Minisign, PasswordsAreRightNeededAndWanted) {
  const std::string encrypted = Data("password.key");
  EXPECT_EQ(SecretVerdict(encrypted, kPassword), "accepted");
  EXPECT_EQ(SecretVerdict(encrypted, "correct horsf"),
            "key.password | the password is wrong, or the secret key file is damaged");
  EXPECT_EQ(SecretVerdict(encrypted, ""), "key.password | the password is wrong, or the secret key file is damaged");
  EXPECT_EQ(SecretVerdict(encrypted, std::nullopt),
            "key.password | the secret key needs a password, and none is given");
  EXPECT_EQ(SecretVerdict(Data("plain.key"), kPassword),
            "key.password | the secret key has no password, and one is given");
  EXPECT_EQ(SecretVerdict(Data("plain.key"), ""), "key.password | the secret key has no password, and one is given");
  const std::string longest(1022, 'p');
  const std::vector<std::pair<std::string, std::string>> refused = {
      {longest + "p", "key.password | the password has 1023 bytes, at most 1022 are allowed"},
      {"correct horse\n", "key.password | the password has a line end or a zero byte in it"},
      {"correct horse\r", "key.password | the password has a line end or a zero byte in it"},
      {std::string("correct\0horse", 13), "key.password | the password has a line end or a zero byte in it"},
  };
  const SecretKey key = SecretOf("plain.key");
  for (const auto& [password, verdict] : refused) {
    EXPECT_EQ(SecretVerdict(encrypted, password), verdict);
    EXPECT_EQ(VerdictOf(key.Write(password, PasswordCost::kInteractive).status()), verdict);
  }
  EXPECT_EQ(VerdictOf(key.Write("", PasswordCost::kInteractive).status()), "key.password | the password is empty");
  EXPECT_EQ(SecretVerdict(key.Write(longest, PasswordCost::kInteractive)->view(), longest), "accepted");
}

TEST(Minisign, SecretKeyFilesAreStrict) {
  const std::string file = Data("plain.key");
  const std::string encrypted = Data("password.key");
  EXPECT_EQ(SecretVerdict("", std::nullopt), "key.format | the file has 0 lines, expected 2");
  EXPECT_EQ(SecretVerdict(std::string(1237, 'x'), std::nullopt),
            "key.format | the file has 1237 bytes, at most 1236 are read");
  EXPECT_EQ(SecretVerdict(Data("plain.pub"), std::nullopt),
            "key.format | line 2 has 56 characters, expected 212 of base64");
  EXPECT_EQ(SecretVerdict(WithField(file, 0, "ED"), std::nullopt),
            "key.format | the key's algorithm is 4544, expected 4564 ('Ed')");
  EXPECT_EQ(SecretVerdict(WithField(file, 2, "Ar"), std::nullopt),
            "key.format | the key's derivation is 4172, expected 5363 ('Sc') or 0000 (no password)");
  EXPECT_EQ(SecretVerdict(WithField(file, 4, "B3"), std::nullopt),
            "key.format | the key's checksum is 4233, expected 4232 ('B2')");
  EXPECT_EQ(SecretVerdict(WithField(file, 126, "x"), std::nullopt),
            "key.format | the secret key does not hash to the checksum in its file");
  EXPECT_EQ(SecretVerdict(WithField(file, 62, std::string(32, 'x')), std::nullopt),
            "key.format | the public half of the secret key does not belong to it");
  EXPECT_EQ(SecretVerdict(WithField(file, 94, std::string(32, 'x')), std::nullopt),
            "key.format | the public half of the secret key does not belong to it");
  EXPECT_EQ(SecretVerdict(WithField(encrypted, 62, "x"), kPassword),
            "key.password | the password is wrong, or the secret key file is damaged");
  EXPECT_EQ(SecretVerdict(WithField(encrypted, 6, "x"), kPassword),
            "key.password | the password is wrong, or the secret key file is damaged");
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_FALSE(SecretKey::Parse(file.substr(0, size), std::nullopt).ok()) << size;
  }
}

// A file must not make us work for hours or take all memory: refused before scrypt starts.
TEST(Minisign, LimitsOfScryptAreBounded) {
  const std::string file = Data("password.key");
  const auto verdict = [&](const char* operations, const char* memory) {
    return SecretVerdict(
        WithField(file, 38, absl::StrCat(absl::HexStringToBytes(operations), absl::HexStringToBytes(memory))),
        kPassword);
  };
  EXPECT_EQ(verdict("0100000200000000", "0000000200000000"),
            "key.format | the key asks for 33554433 operations of scrypt, 32768 to 33554432 are allowed");
  EXPECT_EQ(verdict("ff7f000000000000", "0000000200000000"),
            "key.format | the key asks for 32767 operations of scrypt, 32768 to 33554432 are allowed");
  EXPECT_EQ(verdict("ffffffffffffffff", "0000000200000000"),
            "key.format | the key asks for 18446744073709551615 operations of scrypt, 32768 to 33554432 are allowed");
  EXPECT_EQ(verdict("0000100000000000", "0100004000000000"),
            "key.format | the key asks for 1073741825 bytes of memory for scrypt, 16777216 to 1073741824 are allowed");
  EXPECT_EQ(verdict("0000100000000000", "ffffff0000000000"),
            "key.format | the key asks for 16777215 bytes of memory for scrypt, 16777216 to 1073741824 are allowed");
  EXPECT_EQ(verdict("0080000000000000", "0000000100000000"),
            "key.password | the password is wrong, or the secret key file is damaged");
}

// With a checksum every change is refused, but for salt and limits, which a plain key does not use.
TEST(Minisign, EveryChangedByteOfASecretKeyIsRefusedOrUnused) {
  const std::string file = Data("removed.key");
  const PublicKey key = PublicOf("password.pub");
  const size_t line = file.find('\n') + 1;
  size_t refused = 0;
  size_t unused = 0;
  size_t tried = 0;
  for (size_t at = line; at < file.size(); ++at) {
    const bool used = at < line + 8 || at >= line + 72;  // 6 bytes before, 48 bytes unused
    for (int change = 1; change < 256; ++change) {
      ++tried;
      std::string changed = file;
      changed[at] = static_cast<char>(changed[at] ^ change);
      const absl::StatusOr<SecretKey> parsed = SecretKey::Parse(changed, std::nullopt);
      refused += parsed.ok() ? 0u : 1u;
      unused += parsed.ok() && !used && parsed->public_key() == key ? 1u : 0u;
    }
  }
  std::cout << refused << " refused and " << unused << " in unused fields, of " << tried << " changes\n";
  EXPECT_EQ(refused + unused, tried);
  EXPECT_EQ(unused, 64 * 63u);
}

#if !MESHSEAL_TEST_SANITIZED  // sanitizers do not survive a limit on memory
TEST(Minisign, TooLittleMemoryForAPasswordIsSaid) {
  const SecretKey key = SecretOf("plain.key");
  std::ifstream statm("/proc/self/statm");
  uint64_t pages = 0;
  ASSERT_TRUE(statm >> pages);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit limit = before;
  limit.rlim_cur = pages * 4096 + (256ull << 20);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  const std::string verdict = VerdictOf(key.Write(kPassword).status());
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(verdict, "key.memory | hashing the password of the key needs 1.0 GiB of memory, which cannot be had");
}
#endif

}  // namespace
}  // namespace meshseal
