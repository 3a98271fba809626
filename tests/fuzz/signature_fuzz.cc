// One text as a signature, a public key and a secret key. Only the one signature that its key made verifies, and what
// is read is written again.
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schema/minisign_key.h"
#include "schema/minisign_signature.h"
#include "schema/reason.h"
#include "schema/sealed_plan.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/plan_builder.h"

namespace meshseal::fuzz {
namespace {

std::string ReadData(const std::string& name) {
  std::ifstream in(absl::StrCat(MESHSEAL_TEST_DATA, "/minisign/", name), std::ios::binary);
  Expect(in.good(), absl::StrCat(name, " cannot be read"));
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string AfterFirstLine(absl::string_view text) { return std::string(text.substr(text.find('\n') + 1)); }

// A signed file with its signatures: the text after the comment that anybody may change, by key.
struct Signed {
  std::string file;
  PublicKey key;
  std::string signature;
};

const std::vector<Signed>& SignedFiles() {
  static const auto* const kFiles = [] {
    auto* files = new std::vector<Signed>;
    for (const std::string name : {"plain", "password"}) {
      files->push_back(
          {ReadData("message.bin"), *ParsePublicKey(ReadData(name + ".pub")), ReadData(name + ".minisig")});
    }
    support::PlanNumbers numbers;
    numbers.ep = 2;
    const SecretKey key = *SecretKey::Parse(ReadData("plain.key"), std::nullopt);
    const std::string plan = *SealPlan(support::BuildPlan(numbers), 7);
    files->push_back({plan, key.public_key(), *SignDetached(plan, key, "serial 7")});
    return files;
  }();
  return *kFiles;
}

void TrySignature(absl::string_view text) {
  const absl::StatusOr<DetachedSignature> parsed = DetachedSignature::Parse(text);
  const Signed& plan = SignedFiles().back();
  Policy policy;
  policy.keyring = Keyring{{{"plain", plan.key}}, {}, {}};
  const absl::StatusOr<SealedPlan> opened = SealedPlan::Open(plan.file, policy, text);
  if (!parsed.ok()) {
    Expect(ReasonOf(parsed.status()).has_value() && !opened.ok(),
           "a malformed signature, and no reason or an open plan");
    return;
  }
  for (const Signed& known : SignedFiles()) {
    const absl::StatusOr<std::string> comment = parsed->Verify(known.file, known.key);
    const bool made = AfterFirstLine(text) == AfterFirstLine(known.signature);
    Expect(comment.ok() == made, made ? "a signature does not verify" : "a forged signature verifies");
    if (!made) continue;
    Expect(absl::StrContains(text, absl::StrCat("\ntrusted comment: ", *comment, "\n")), "another comment");
    ++accepted;
  }
  Expect(opened.ok() == (AfterFirstLine(text) == AfterFirstLine(plan.signature)),
         "a plan opens with a forged signature");
}

void TryPublicKey(absl::string_view text) {
  const absl::StatusOr<PublicKey> key = ParsePublicKey(text);
  if (!key.ok()) return;
  ++accepted;
  Expect(AfterFirstLine(PublicKeyFile(*key)) == AfterFirstLine(text), "a public key is written otherwise");
}

// Whether reading the key takes a while: scrypt with more than the least that we write.
bool IsSlow(absl::string_view text) {
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  std::string bytes;
  if (lines.size() < 2 || !absl::Base64Unescape(lines[1], &bytes) || bytes.size() < 54) return false;
  const auto number = [&](size_t at) {
    uint64_t value = 0;
    for (size_t i = 8; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
    return value;
  };
  return bytes.substr(2, 2) == "Sc" && (number(38) > 524'288 || number(46) > uint64_t{16} << 20);
}

void TrySecretKey(absl::string_view text) {
  for (const std::optional<absl::string_view>& password : {std::optional<absl::string_view>(), {"password"}}) {
    if (password.has_value() && IsSlow(text)) continue;
    const absl::StatusOr<SecretKey> key = SecretKey::Parse(text, password);
    if (!key.ok()) continue;
    ++accepted;
    // Both halves belong together, and the file that we write is the same key.
    const std::string signature = *SignDetached("text", *key, "comment");
    Expect(DetachedSignature::Parse(signature)->Verify("text", key->public_key()).ok(), "a key pair of two keys");
    const absl::StatusOr<SecretText> file = key->Write(std::nullopt);
    Expect(file.ok(), "a key is not written");
    const absl::StatusOr<SecretKey> again = SecretKey::Parse(file->view(), std::nullopt);
    Expect(again.ok() && again->public_key() == key->public_key(), "a key is read back as another one");
  }
}

}  // namespace
}  // namespace meshseal::fuzz

// Now and then from a true signature of the plan, which no file of the corpus can be.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  if (seed % 16 == 0)
    size = meshseal::fuzz::Replace(meshseal::fuzz::SignedFiles().back().signature, data, size, max_size);
  return LLVMFuzzerMutate(data, size, max_size);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text = meshseal::fuzz::TextOf(data, size);
  meshseal::fuzz::TrySignature(text);
  meshseal::fuzz::TryPublicKey(text);
  meshseal::fuzz::TrySecretKey(text);
  return 0;
}
