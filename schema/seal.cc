#include "schema/seal.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "schema/reason.h"

namespace meshseal {
namespace {

constexpr absl::string_view kMark("\x89MSL\r\n\x1a\n", 8);
constexpr uint16_t kSha256Algorithm = 1;
constexpr uint32_t kKnownFeatures = 0;

// Where each field of the header stands.
constexpr size_t kMajorAt = 8;
constexpr size_t kMinorAt = 10;
constexpr size_t kHeaderLengthAt = 12;
constexpr size_t kPayloadLengthAt = 16;
constexpr size_t kTotalLengthAt = 24;
constexpr size_t kAlgorithmAt = 32;
constexpr size_t kPayloadTypeAt = 34;
constexpr size_t kFeaturesAt = 36;
constexpr size_t kSerialAt = 40;
constexpr size_t kStreamAt = 48;
constexpr size_t kPayloadDigestAt = 64;
constexpr size_t kPlanIdAt = 96;
// The fields that the format gate reads end here.
constexpr size_t kFormatEnd = 40;

template <class T>
T Load(absl::string_view file, size_t at) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value | static_cast<T>(static_cast<T>(static_cast<uint8_t>(file[at + i])) << (8 * i)));
  }
  return value;
}

template <class T>
void Store(std::string& header, size_t at, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) header[at + i] = static_cast<char>((value >> (8 * i)) & 0xff);
}

void StoreBytes(std::string& header, size_t at, const uint8_t* bytes, size_t size) {
  std::memcpy(header.data() + at, bytes, size);
}

bool HoldsDigest(absl::string_view file, size_t at, const Sha256Digest& digest) {
  return std::memcmp(file.data() + at, digest.data(), digest.size()) == 0;
}

const char* NameOf(PayloadType type) {
  switch (type) {
    case PayloadType::kPlan:
      return " (plan)";
    case PayloadType::kWeightDigests:
      return " (weights digest list)";
  }
  return "";
}

std::string HexAt(absl::string_view file, size_t at) {
  return absl::BytesToHexString(file.substr(at, sizeof(Sha256Digest)));
}

}  // namespace

StreamId StreamOf(absl::string_view name) {
  const Sha256Digest digest = Sha256(name);
  StreamId stream;
  std::copy_n(digest.begin(), stream.size(), stream.begin());
  return stream;
}

std::string SealPayload(absl::string_view payload, PayloadType type, uint64_t serial, const StreamId& stream) {
  std::string file(kSealSize, '\0');
  std::copy(kMark.begin(), kMark.end(), file.begin());
  Store<uint16_t>(file, kMajorAt, kEnvelopeMajor);
  Store<uint16_t>(file, kMinorAt, kEnvelopeMinor);
  Store<uint32_t>(file, kHeaderLengthAt, kSealSize);
  Store<uint64_t>(file, kPayloadLengthAt, payload.size());
  Store<uint64_t>(file, kTotalLengthAt, kSealSize + payload.size());
  Store<uint16_t>(file, kAlgorithmAt, kSha256Algorithm);
  Store<uint16_t>(file, kPayloadTypeAt, static_cast<uint16_t>(type));
  Store<uint32_t>(file, kFeaturesAt, kKnownFeatures);
  Store<uint64_t>(file, kSerialAt, serial);
  StoreBytes(file, kStreamAt, stream.data(), stream.size());
  const Sha256Digest payload_digest = Sha256(payload);
  StoreBytes(file, kPayloadDigestAt, payload_digest.data(), payload_digest.size());
  const Sha256Digest plan_id = Sha256(absl::string_view(file).substr(0, kPlanIdAt));
  StoreBytes(file, kPlanIdAt, plan_id.data(), plan_id.size());
  file.append(payload.data(), payload.size());
  return file;
}

absl::Status CheckMark(absl::string_view file) {
  const absl::string_view found = file.substr(0, kMark.size());
  if (found == kMark) return absl::OkStatus();
  if (found.empty()) return Refuse(Reason::kNotAPlan, "the file is empty");
  return Refuse(Reason::kNotAPlan, absl::StrCat("not a sealed file: it starts with ", absl::BytesToHexString(found),
                                                ", a sealed file with ", absl::BytesToHexString(kMark)));
}

absl::Status CheckFormat(absl::string_view file, PayloadType type) {
  if (file.size() < kFormatEnd) return absl::OkStatus();  // the size gate says so
  const uint32_t major = Load<uint16_t>(file, kMajorAt);
  const uint32_t minor = Load<uint16_t>(file, kMinorAt);
  if (major != kEnvelopeMajor || minor != kEnvelopeMinor) {
    return Refuse(Reason::kEnvelopeVersion, absl::StrCat("envelope ", major, ".", minor, ", this version reads ",
                                                         kEnvelopeMajor, ".", kEnvelopeMinor));
  }
  if (const auto length = Load<uint32_t>(file, kHeaderLengthAt); length != kSealSize) {
    return Refuse(Reason::kHeaderLength, absl::StrCat("header length ", length, ", expected ", kSealSize));
  }
  if (const uint32_t algorithm = Load<uint16_t>(file, kAlgorithmAt); algorithm != kSha256Algorithm) {
    return Refuse(Reason::kDigestAlgorithm,
                  absl::StrCat("digest algorithm ", algorithm, ", expected ", kSha256Algorithm, " (SHA-256)"));
  }
  if (const uint32_t found = Load<uint16_t>(file, kPayloadTypeAt); found != static_cast<uint32_t>(type)) {
    return Refuse(Reason::kPayloadType, absl::StrCat("payload type ", found, NameOf(static_cast<PayloadType>(found)),
                                                     ", expected ", static_cast<uint32_t>(type), NameOf(type)));
  }
  if (const auto features = Load<uint32_t>(file, kFeaturesAt); (features & ~kKnownFeatures) != 0) {
    return Refuse(Reason::kFeatureBits, absl::StrCat("the file requires feature bits 0x", absl::Hex(features),
                                                     ", this version knows 0x", absl::Hex(kKnownFeatures)));
  }
  return absl::OkStatus();
}

absl::Status CheckSize(absl::string_view file) {
  if (file.size() < kSealSize) {
    return Refuse(Reason::kShortHeader,
                  absl::StrCat("the file ends after ", file.size(), " bytes, inside its header of ", kSealSize));
  }
  const auto payload = Load<uint64_t>(file, kPayloadLengthAt);
  if (payload > kMaxPayload) {
    return Refuse(Reason::kPayloadTooLarge,
                  absl::StrCat("sealed payload length ", payload, ", at most ", kMaxPayload, " is read"));
  }
  if (payload != file.size() - kSealSize) {
    return Refuse(Reason::kPayloadLength, absl::StrCat("sealed payload length ", payload, ", the file has ",
                                                       file.size() - kSealSize, " bytes after its header"));
  }
  if (const auto total = Load<uint64_t>(file, kTotalLengthAt); total != file.size()) {
    return Refuse(Reason::kTotalLength,
                  absl::StrCat("sealed total length ", total, ", the file has ", file.size(), " bytes"));
  }
  return absl::OkStatus();
}

absl::Status CheckDigest(absl::string_view file) {
  if (const Sha256Digest id = Sha256(file.substr(0, kPlanIdAt)); !HoldsDigest(file, kPlanIdAt, id)) {
    return Refuse(Reason::kHeaderDigest,
                  absl::StrCat("the header hashes to ", HexOf(id), ", sealed is ", HexAt(file, kPlanIdAt)));
  }
  if (const Sha256Digest digest = Sha256(PayloadOf(file)); !HoldsDigest(file, kPayloadDigestAt, digest)) {
    return Refuse(Reason::kPayloadDigest,
                  absl::StrCat("the payload hashes to ", HexOf(digest), ", sealed is ", HexAt(file, kPayloadDigestAt)));
  }
  return absl::OkStatus();
}

SealFacts FactsOf(absl::string_view file) {
  SealFacts facts;
  facts.serial = Load<uint64_t>(file, kSerialAt);
  std::memcpy(facts.stream.data(), file.data() + kStreamAt, facts.stream.size());
  std::memcpy(facts.plan_id.data(), file.data() + kPlanIdAt, facts.plan_id.size());
  return facts;
}

absl::string_view PayloadOf(absl::string_view file) { return file.substr(kSealSize); }

}  // namespace meshseal
