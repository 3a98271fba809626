// What one rank says of itself in the preflight.
#ifndef MESHSEAL_RUNTIME_SESSION_RANK_RECORD_H_
#define MESHSEAL_RUNTIME_SESSION_RANK_RECORD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "runtime/session/job_key.h"
#include "runtime/session/local_facts.h"
#include "schema/policy.h"
#include "schema/sealed_plan.h"
#include "schema/sha256.h"

namespace meshseal::runtime {

// The version of the record and of the protocol behind it.
inline constexpr uint32_t kPreflightProtocol = 4;

// Bytes of a record as it is sent, in every protocol; what no field fills is zero.
inline constexpr size_t kRecordBytes = 1024;

// Text that is padded with zeros; what is longer ends with '#' and eight digits of its digest.
using ShortName = std::array<char, 16>;
using LongName = std::array<char, 64>;
using CoordinateField = std::array<uint32_t, 4>;  // dp, pp, tp, ep
using DeviceUuid = std::array<uint8_t, 16>;       // all zeros: the rank computes on its host

// Why a rank trusts the network between hosts.
enum class NetworkTrust : uint32_t { kUnstated = 0, kIsolated = 1, kJobKey = 2 };

struct RankRecord {
#define MESHSEAL_PREFLIGHT_FIELD(enumerator, type, member, name, rule, print) type member{};
#include "runtime/session/preflight_fields.def"
#undef MESHSEAL_PREFLIGHT_FIELD
};

enum class PreflightField : uint8_t {
#define MESHSEAL_PREFLIGHT_FIELD(enumerator, type, member, name, rule, print) enumerator,
#include "runtime/session/preflight_fields.def"
#undef MESHSEAL_PREFLIGHT_FIELD
};

inline constexpr size_t kPreflightFields = 0
#define MESHSEAL_PREFLIGHT_FIELD(enumerator, type, member, name, rule, print) +1
#include "runtime/session/preflight_fields.def"
#undef MESHSEAL_PREFLIGHT_FIELD
    ;

// What the plan does not say of a rank.
struct RankFacts {
  LocalFacts local;  // where there is a device, free_memory is the device's
  std::string backend;
  std::string mpi_version;  // these three: empty where it is not used
  std::string cuda_version;
  std::string nccl_version;
  std::string policy;              // lines: PolicyText and what else the operator decided
  Sha256Digest weights_digests{};  // id of the list that weights are verified with; zeros: they are not
  bool emulate = false;
  DeviceUuid device{};
  std::string pci_id;
  std::string fabric;  // of the device: cluster and clique; empty: of none
  std::optional<JobKey> job_key;
  bool isolated_network = false;
};

// A record and what stands behind its digests.
struct RankStatement {
  RankRecord record;
  std::array<std::string, kPreflightFields> texts;  // "NAME VALUE" lines, of fields with the rule kIdenticalText
  std::optional<JobKey> job_key;
};

RankStatement StatementOf(const SealedPlan& plan, uint32_t rank, const RankFacts& facts);

// `policy` as lines.
std::string PolicyText(const Policy& policy);

// The fields one after the other, integers little-endian.
std::array<std::byte, kRecordBytes> EncodeRecord(const RankRecord& record);
RankRecord DecodeRecord(const std::byte* bytes);

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_SESSION_RANK_RECORD_H_
