// The seal: a fixed 128-byte little-endian header in front of the payload, and nothing after it.
//
//   off size field
//     0    8 mark 89 'M' 'S' 'L' 0D 0A 1A 0A: a transfer in text mode breaks it
//     8  2+2 envelope major, minor
//    12    4 header length, 128
//    16    8 payload length
//    24    8 total length
//    32  2+2 digest algorithm (1 = SHA-256), payload type
//    36    4 required feature bits
//    40    8 serial, ascending within one stream
//    48   16 stream: first half of SHA-256(deployment name); of a digest list, of its model's name
//    64   32 SHA-256(payload)
//    96   32 SHA-256(header[0..96)): the plan id, or the id of a digest list
//
// `sealed` means that these digests hold. It is integrity, not authenticity: anybody can make a seal.
#ifndef MESHSEAL_SCHEMA_SEAL_H_
#define MESHSEAL_SCHEMA_SEAL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "schema/sha256.h"

namespace meshseal {

inline constexpr size_t kSealSize = 128;
inline constexpr uint16_t kEnvelopeMajor = 1;
inline constexpr uint16_t kEnvelopeMinor = 0;
inline constexpr uint64_t kMaxPayload = 256ull << 20;

enum class PayloadType : uint16_t { kPlan = 1, kWeightDigests = 2 };

using StreamId = std::array<uint8_t, 16>;

// What the header says beyond lengths and digests.
struct SealFacts {
  uint64_t serial = 0;
  StreamId stream{};
  Sha256Digest plan_id{};  // of a digest list, its id
};

// The stream of a deployment's plans, or of a model's digest lists.
StreamId StreamOf(absl::string_view name);

// header + payload.
std::string SealPayload(absl::string_view payload, PayloadType type, uint64_t serial, const StreamId& stream);

// The gates mark, format, size and digest, each over the whole `file`; they run in this order and need the ones before
// them. Every refusal says what was found and what was expected.
absl::Status CheckMark(absl::string_view file);
absl::Status CheckFormat(absl::string_view file, PayloadType type);
absl::Status CheckSize(absl::string_view file);
absl::Status CheckDigest(absl::string_view file);

// The header's facts and the payload, of a file that passed these gates.
SealFacts FactsOf(absl::string_view file);
absl::string_view PayloadOf(absl::string_view file);

}  // namespace meshseal

#endif  // MESHSEAL_SCHEMA_SEAL_H_
