// Forged plans and signatures, one kind each: F01 to F22 of the bad inputs that a sealed plan must survive. Each is
// refused with exit code 3, for its own reason, and the text says what was found and what was expected.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "schema/fingerprint.h"
#include "schema/minisign_key.h"
#include "schema/minisign_signature.h"
#include "schema/minisign_text.h"
#include "schema/plan_codec.h"
#include "schema/reason.h"
#include "schema/seal.h"
#include "schema/sealed_plan.h"
#include "tests/schema/sample_plans.h"
#include "tests/support/plan_builder.h"
#include "tests/support/test_data.h"

namespace meshseal {
namespace {

constexpr uint64_t kSerial = 7;
constexpr absl::string_view kComment = "serial 7";

std::string Data(const std::string& name) { return support::TestData("minisign/" + name); }

// The key that the operator trusts, and one that nobody does.
const SecretKey& TrustedSecret() {
  static const SecretKey kKey = *SecretKey::Parse(Data("plain.key"), std::nullopt);
  return kKey;
}
const SecretKey& OtherSecret() {
  static const SecretKey kKey = *SecretKey::Parse(Data("removed.key"), std::nullopt);
  return kKey;
}

std::string Signed(const std::string& file, const SecretKey& key = TrustedSecret()) {
  return *SignDetached(file, key, kComment);
}

Plan ValidPlan() { return support::BuildPlan(samples::Base()); }
const std::string& ValidFile() {
  static const std::string kFile = *SealPlan(ValidPlan(), kSerial);
  return kFile;
}

std::string Sealed(const std::string& payload, PayloadType type = PayloadType::kPlan) {
  return SealPayload(payload, type, kSerial, StreamOf("test"));
}

// The stored little-endian number, and another one in its place.
uint64_t Load(const std::string& bytes, size_t at, size_t size) {
  uint64_t value = 0;
  for (size_t i = size; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
  return value;
}
void Store(std::string& bytes, size_t at, size_t size, uint64_t value) {
  for (size_t i = 0; i < size; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i) & 0xff);
}
void Append(std::string& bytes, size_t size, uint64_t value) {
  bytes.resize(bytes.size() + size);
  Store(bytes, bytes.size() - size, size, value);
}

// Makes both digests of the header again.
std::string Resealed(std::string file) {
  const auto put = [&file](size_t at, const Sha256Digest& digest) {
    std::copy(digest.begin(), digest.end(), file.begin() + static_cast<std::ptrdiff_t>(at));
  };
  put(64, Sha256(absl::string_view(file).substr(kSealSize)));
  put(96, Sha256(absl::string_view(file).substr(0, 96)));
  return file;
}

// A file, its signature, and the keyring that is asked.
struct Forgery {
  std::string file;
  std::string signature;
  Keyring keyring;
  std::string slug;
  std::string text;  // behind "refused at gate '...': "
};

Keyring Trusting(const SecretKey& key) { return {{{"plain", key.public_key()}}, {}, {}}; }

Forgery Forged(std::string file, std::string signature, std::string slug, std::string text) {
  return {std::move(file), std::move(signature), Trusting(TrustedSecret()), std::move(slug), std::move(text)};
}
// With a signature over just this file, by the trusted key.
Forgery SignedForgery(const std::string& file, std::string slug, std::string text) {
  return Forged(file, Signed(file), std::move(slug), std::move(text));
}
// A plan that is sealed and signed as any other, with a fingerprint that fits.
Forgery SignedPlan(Plan plan, const std::string& rule_and_text) {
  plan.execution_fingerprint = ExecutionFingerprint(plan);
  return SignedForgery(Sealed(EncodePlan(plan)), "meaning", rule_and_text);
}

std::string HeaderDigestText(const std::string& file) {
  return absl::StrCat("the header hashes to ", HexOf(Sha256(absl::string_view(file).substr(0, 96))), ", sealed is ",
                      absl::BytesToHexString(absl::string_view(file).substr(96, 32)));
}

std::string WithFlippedPayload() {
  std::string file = ValidFile();
  file[kSealSize + 1000] ^= 1;
  return file;
}

std::vector<std::string> LinesOf(const std::string& signature) { return absl::StrSplit(signature, '\n'); }

// `signature` with other bytes behind the base64 of its second line.
std::string WithFields(const std::string& signature, size_t at, absl::string_view bytes) {
  std::vector<std::string> lines = LinesOf(signature);
  std::string fields;
  EXPECT_TRUE(absl::Base64Unescape(lines[1], &fields));
  lines[1] = absl::Base64Escape(fields.replace(at, bytes.size(), bytes.data(), bytes.size()));
  return absl::StrJoin(lines, "\n");
}

std::string KeyIdBytes(const SecretKey& key) {
  const KeyId id = key.public_key().id;
  return {id.begin(), id.end()};
}

absl::Span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// As minisign signed before it hashed: Ed25519 over the file itself.
std::string LegacySignature(const std::string& file) {
  const Ed25519Signature signature = TrustedSecret().Sign(Bytes(file));
  const std::string raw(signature.begin(), signature.end());
  std::string text = absl::StrCat(kUntrustedCommentPrefix, "legacy\n");
  AppendBase64Line(Bytes(absl::StrCat("Ed", KeyIdBytes(TrustedSecret()), raw)), text);
  absl::StrAppend(&text, kTrustedCommentPrefix, kComment, "\n");
  AppendBase64Line(TrustedSecret().Sign(Bytes(absl::StrCat(raw, kComment))), text);
  return text;
}

// Where the offset of a table's field stands in a payload, by the field's id in plan.fbs.
size_t FieldAt(const std::string& payload, size_t table, size_t id) {
  const size_t vtable = table - static_cast<uint32_t>(Load(payload, table, 4));
  return table + Load(payload, vtable + 4 + 2 * id, 2);
}
size_t RootFieldAt(const std::string& payload, size_t id) { return FieldAt(payload, Load(payload, 0, 4), id); }
// What the offset that stands at `field` leads to.
size_t Behind(const std::string& payload, size_t field) { return field + Load(payload, field, 4); }

// The payload with elements of 8-byte numbers at an odd multiple of 4: the vector of that field, of elements of
// `element_bytes`, is copied to the end.
std::string Misaligned(std::string payload, size_t field, size_t element_bytes) {
  const size_t vector = Behind(payload, field);
  const std::string copy = payload.substr(vector, 4 + Load(payload, vector, 4) * element_bytes);
  while (payload.size() % 8 != 0) payload += '\0';
  Store(payload, field, 4, payload.size() - field);
  payload += copy;  // four bytes of length, then the first element
  return payload;
}

std::string MisalignedStructs() {
  constexpr size_t kMemoryId = 23;
  constexpr size_t kRankMemoryBytes = 96;
  const std::string payload = EncodePlan(ValidPlan());
  return Misaligned(payload, RootFieldAt(payload, kMemoryId), kRankMemoryBytes);
}

std::string MisalignedNumbers() {
  constexpr size_t kLayerClassesId = 22;
  constexpr size_t kLoadId = 16;
  constexpr size_t kSlotsId = 0;
  const std::string payload = EncodePlan(support::BuildPlan(samples::Balanced()));
  const size_t classes = Behind(payload, RootFieldAt(payload, kLayerClassesId));
  const size_t load = Behind(payload, FieldAt(payload, Behind(payload, classes + 4), kLoadId));
  return Misaligned(payload, FieldAt(payload, load, kSlotsId), sizeof(uint64_t));
}

// The payload with a vector of 900,000 sources, which are all the same table.
std::string AliasedPayload() {
  constexpr size_t kSourcesId = 7;
  constexpr size_t kAliases = 900000;
  std::string payload = EncodePlan(ValidPlan());
  while (payload.size() % 4 != 0) payload += '\0';
  const size_t field = RootFieldAt(payload, kSourcesId);
  Store(payload, field, 4, payload.size() - field);
  const size_t table = payload.size() + 4 + 4 * kAliases + 8;  // behind the vector and the table's own layout
  Append(payload, 4, kAliases);
  for (size_t i = 0; i < kAliases; ++i) Append(payload, 4, table - payload.size());
  Append(payload, 2, 8);  // the layout: its size, the table's, and where name and digest stand
  Append(payload, 2, 40);
  Append(payload, 2, 4);
  Append(payload, 2, 8);
  Append(payload, 4, 8);   // the table: back to its layout
  Append(payload, 4, 36);  // to the name behind the digest
  payload.append(32, '\x5a');
  Append(payload, 4, 1);
  payload += std::string("m\0\0\0", 4);
  return payload;
}

Step& DecodeStep(Plan& plan, size_t i) { return plan.layer_classes[0].programs[0].steps[i]; }

// All rows by name, so that a row that fails says which.
std::map<std::string, Forgery> Forgeries() {
  std::map<std::string, Forgery> rows;
  const std::string& valid = ValidFile();
  const std::string signature = Signed(valid);
  const std::string payload(PayloadOf(valid));
  const std::string key = "177D2825347ABD01";
  const std::string other_key = "42603606EB571326";
  const std::string not_over = absl::StrCat("the signature is not one of key ", key, " over the bytes of this file");

  rows["F01 no byte"] = Forged("", signature, "mark.not-a-plan", "the file is empty");
  rows["F02 127 bytes"] = Forged(valid.substr(0, 127), signature, "size.short-header",
                                 "the file ends after 127 bytes, inside its header of 128");

  std::string changed = WithFlippedPayload();
  const std::string flipped = HexOf(Sha256(PayloadOf(changed)));
  rows["F04 a payload byte"] =
      Forged(changed, signature, "digest.payload",
             absl::StrCat("the payload hashes to ", flipped, ", sealed is ", HexOf(Sha256(payload))));
  changed = Resealed(changed).replace(96, 32, valid, 96, 32);
  rows["F05 the payload's digest made again"] = Forged(changed, signature, "digest.header", HeaderDigestText(changed));
  rows["F06 both digests made again"] = Forged(Resealed(changed), signature, "signature.bytes", not_over);

  rows["F07 an unknown key"] = Forged(valid, Signed(valid, OtherSecret()), "signature.untrusted-key",
                                      absl::StrCat("signed by key ", other_key, ", trusted are plain (", key, ")"));
  Forgery two_keys =
      Forged(valid, WithFields(signature, 2, KeyIdBytes(OtherSecret())), "signature.bytes",
             absl::StrCat("the signature is not one of key ", other_key, " over the bytes of this file"));
  two_keys.keyring.keys.push_back({"second", OtherSecret().public_key()});
  rows["F08 a trusted key with the id of another"] = two_keys;
  rows["F08 a trusted key with the id of none"] =
      Forged(valid, WithFields(signature, 2, "12345678"), "signature.untrusted-key",
             absl::StrCat("signed by key 3837363534333231, trusted are plain (", key, ")"));
  std::vector<std::string> lines = LinesOf(signature);
  lines[2] = "trusted comment: serial 8";
  rows["F09 another trusted comment"] = Forged(valid, absl::StrJoin(lines, "\n"), "signature.trusted-comment",
                                               absl::StrCat("the trusted comment is not signed by key ", key));
  rows["F10 a legacy signature"] =
      Forged(valid, LegacySignature(valid), "signature.algorithm",
             "the signature is of the legacy kind 'Ed', without a hash of the file; only 'ED' is accepted");
  for (const size_t line : {size_t{1}, size_t{3}}) {
    lines = LinesOf(signature);
    lines[line][20] = static_cast<char>(lines[line][20] | 0x80);
    rows[absl::StrCat("F11 a high bit in line ", line + 1)] =
        Forged(valid, absl::StrJoin(lines, "\n"), "signature.format",
               absl::StrCat("line ", line + 1, " has at character 21 no base64 digit"));
  }
  const std::string another = *SealPlan(support::BuildPlan(samples::Shared()), kSerial);
  rows["F12 the signature of another plan"] = Forged(valid, Signed(another), "signature.bytes", not_over);
  Forgery rolled_back =
      SignedForgery(valid, "policy.serial", "serial 7, the lowest one accepted of this deployment is 8");
  rolled_back.keyring.min_serials = {{StreamOf("another"), 9}, {StreamOf("test"), 8}};
  rows["F13 a serial that was superseded"] = rolled_back;
  changed = valid;
  changed[36] = 2;
  rows["F14 a feature that nobody knows"] = SignedForgery(Resealed(changed), "format.feature-bits",
                                                          "the file requires feature bits 0x2, this version knows 0x0");
  rows["F15 a list of digests"] = SignedForgery(Sealed(payload, static_cast<PayloadType>(2)), "format.payload-type",
                                                "payload type 2 (weights digest list), expected 1 (plan)");
  rows["F16 a payload without seal"] =
      SignedForgery(payload, "mark.not-a-plan",
                    absl::StrCat("not a sealed file: it starts with ", absl::BytesToHexString(payload.substr(0, 8)),
                                 ", a sealed file with 894d534c0d0a1a0a"));
  std::string noise;
  for (uint32_t i = 0; noise.size() < 4096; ++i) {
    const Sha256Digest digest = Sha256(absl::StrCat("noise ", i));
    noise.append(digest.begin(), digest.end());
  }
  rows["F17 noise"] = SignedForgery(Sealed(noise), "structure.flatbuffer",
                                    "the FlatBuffers verifier refuses the payload of 4096 bytes");
  rows["F17 nothing"] =
      SignedForgery(Sealed(""), "structure.flatbuffer", "the FlatBuffers verifier refuses the payload of 0 bytes");
  rows["F17 a byte behind the payload"] = SignedForgery(
      Sealed(payload + '\0'), "structure.not-canonical",
      absl::StrCat("payload of ", payload.size() + 1, " bytes, the canonical encoding of its content has ",
                   payload.size(), " and first differs at byte ", payload.size()));
  Plan plan = ValidPlan();
  plan.numerics = static_cast<Numerics>(7);
  rows["F18 a word outside its table"] =
      SignedPlan(plan, "[terms-are-known] numerics contract has the value 7, which is not in its table");

  // Dependencies are the inputs of steps: numbers of values, each made by one step. Order is the grammar's.
  plan = ValidPlan();
  DecodeStep(plan, 2).inputs[0] = DecodeStep(plan, 2).outputs[0];
  rows["F19 a step that waits for itself"] =
      SignedPlan(plan, "[operands-are-tied] layer 0 decode: step 2 activation has inputs (3, 1), expected (2, 1)");
  plan = ValidPlan();
  DecodeStep(plan, 2).inputs[0] = DecodeStep(plan, 3).outputs[0];
  rows["F19 a step that waits for the next"] =
      SignedPlan(plan, "[operands-are-tied] layer 0 decode: step 2 activation has inputs (4, 1), expected (2, 1)");
  plan = ValidPlan();
  DecodeStep(plan, 1).inputs[0] = DecodeStep(plan, 3).outputs[0];  // gate_up waits for down, and so do those between
  rows["F19 a cycle of three"] =
      SignedPlan(plan, "[operands-are-tied] layer 0 decode: step 1 gate_up has inputs (4, 1), expected (0, 1)");
  plan = ValidPlan();
  std::swap(DecodeStep(plan, 2), DecodeStep(plan, 3));
  rows["F19 a step before the one it waits for"] =
      SignedPlan(plan, "[grammar-holds] layer 0 decode: step 2 is down, expected activation");

  rows["F20 numbers that are misaligned"] =
      SignedForgery(Sealed(MisalignedNumbers()), "structure.misaligned", "a vector is misaligned");
  rows["F20 structs that are misaligned"] =
      SignedForgery(Sealed(MisalignedStructs()), "structure.misaligned", "a vector is misaligned");
  rows["F21 900,000 names of one table"] =
      SignedForgery(Sealed(AliasedPayload()), "structure.shared-children", "children are shared between tables");

  // Ranks talk in two ways. Stages hand over where one ends and the next begins: a sender without receiver is a stage
  // too few. All ranks of a group call the one collective: a rank that does not is an axis too few, or a program
  // without the step.
  plan = ValidPlan();
  plan.stage_ends.pop_back();
  rows["F22 a stage that hands over to none"] = SignedPlan(plan, "[stages-cover-layers] 1 pipeline stages, pp is 2");
  plan = ValidPlan();
  DecodeStep(plan, 5).collectives[0].over_ep = false;
  rows["F22 a sum that half the group joins"] =
      SignedPlan(plan,
                 "[collective-sums-addends] layer 0 decode: the collective sums over tp yes ep no, its input is an "
                 "addend on tp yes ep yes");
  plan = ValidPlan();
  plan.layer_classes[0].programs[0].steps.erase(plan.layer_classes[0].programs[0].steps.begin() + 5);
  rows["F22 a program without the collective"] =
      SignedPlan(plan, "[grammar-holds] layer 0 decode: step 5 is residual, expected collective");
  return rows;
}

// Opens the forgery and expects its reason and its whole text.
void ExpectRefused(const std::string& name, const Forgery& forgery) {
  Policy policy;
  policy.keyring = forgery.keyring;
  const absl::Status status = SealedPlan::Open(forgery.file, policy, forgery.signature).status();
  const std::optional<Reason> reason = ReasonOf(status);
  ASSERT_TRUE(reason.has_value()) << name << ": " << status;
  EXPECT_EQ(RowOf(*reason).slug, forgery.slug) << name;
  EXPECT_EQ(ExitCodeOf(status), 3) << name;
  const std::string gate = forgery.slug.substr(0, forgery.slug.find('.'));
  EXPECT_EQ(std::string(status.message()), absl::StrCat("refused at gate '", gate, "': ", forgery.text)) << name;
}

TEST(Forgery, TheUnforgedOneIsAccepted) {
  Policy policy;
  policy.keyring = Trusting(TrustedSecret());
  policy.keyring->min_serials = {{StreamOf("test"), kSerial}};
  EXPECT_EQ(SealedPlan::Open(ValidFile(), policy, Signed(ValidFile())).status(), absl::OkStatus());
}

TEST(Forgery, EachKindIsRefusedForItsReason) {
  const std::map<std::string, Forgery> rows = Forgeries();
  std::set<std::string> kinds;
  for (const auto& [name, forgery] : rows) {
    ExpectRefused(name, forgery);
    kinds.insert(name.substr(0, 3));
  }
  // F03 is the test below.
  EXPECT_EQ(kinds.size(), 21u) << absl::StrJoin(kinds, " ");
}

// F03: each field of the header, one more and one less, with the old digests and where that changes the reason with new
// ones and a signature.
TEST(Forgery, EachHeaderFieldHasItsOwnReason) {
  struct Field {
    const char* name;
    size_t at;
    size_t size;
    const char* slug;
    const char* resealed;  // the reason with digests and a signature that fit; null: none, it is another sealed file
  };
  constexpr Field kFields[] = {
      {"mark", 0, 8, "mark.not-a-plan", "mark.not-a-plan"},
      {"major", 8, 2, "format.envelope-version", "format.envelope-version"},
      {"minor", 10, 2, "format.envelope-version", "format.envelope-version"},
      {"header length", 12, 4, "format.header-length", "format.header-length"},
      {"payload length", 16, 8, "size.payload-length", "size.payload-length"},
      {"total length", 24, 8, "size.total-length", "size.total-length"},
      {"algorithm", 32, 2, "format.digest-algorithm", "format.digest-algorithm"},
      {"payload type", 34, 2, "format.payload-type", "format.payload-type"},
      {"features", 36, 4, "format.feature-bits", "format.feature-bits"},
      {"serial", 40, 8, "digest.header", nullptr},
      {"stream", 48, 8, "digest.header", "meaning"},
      {"payload digest", 64, 8, "digest.header", nullptr},  // Resealed restores it
      {"plan id", 96, 8, "digest.header", nullptr},
  };
  Policy policy;
  policy.keyring = Trusting(TrustedSecret());
  const auto slug_of = [&policy](const std::string& file, const std::string& signature) -> std::string {
    const absl::Status status = SealedPlan::Open(file, policy, signature).status();
    if (status.ok()) return "accepted";
    EXPECT_EQ(ExitCodeOf(status), 3);
    return RowOf(*ReasonOf(status)).slug;
  };
  const std::string signature = Signed(ValidFile());
  for (const Field& field : kFields) {
    for (const uint64_t step : {uint64_t{1}, ~uint64_t{0}}) {
      const std::string name = absl::StrCat(field.name, step == 1 ? " + 1" : " - 1");
      std::string file = ValidFile();
      Store(file, field.at, field.size, Load(file, field.at, field.size) + step);
      EXPECT_EQ(slug_of(file, signature), field.slug) << name;
      file = Resealed(file);
      EXPECT_EQ(slug_of(file, Signed(file)), field.resealed == nullptr ? "accepted" : field.resealed) << name;
    }
  }
}

}  // namespace
}  // namespace meshseal
