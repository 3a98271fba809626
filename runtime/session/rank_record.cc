#include "runtime/session/rank_record.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/mesh_view.h"
#include "schema/terms.h"

namespace meshseal::runtime {
namespace {

// Every field is an integer, an enumeration or an array of integers.
class Writer {
 public:
  explicit Writer(std::byte* next) : next_(next) {}

  template <class T, size_t N>
  void Put(const std::array<T, N>& elements) {
    for (const T element : elements) Put(element);
  }
  void Put(NetworkTrust trust) { Put(static_cast<uint32_t>(trust)); }
  template <class T>
  std::enable_if_t<std::is_integral_v<T>> Put(T element) {
    const auto value = static_cast<std::make_unsigned_t<T>>(element);
    for (size_t i = 0; i < sizeof(T); ++i) *next_++ = static_cast<std::byte>(uint64_t{value} >> (8 * i) & 0xff);
  }

 private:
  std::byte* next_;
};

class Reader {
 public:
  explicit Reader(const std::byte* next) : next_(next) {}

  template <class T, size_t N>
  void Take(std::array<T, N>& elements) {
    for (T& element : elements) Take(element);
  }
  void Take(NetworkTrust& trust) {
    uint32_t value = 0;
    Take(value);
    trust = static_cast<NetworkTrust>(value);
  }
  template <class T>
  std::enable_if_t<std::is_integral_v<T>> Take(T& element) {
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) value |= std::to_integer<uint64_t>(*next_++) << (8 * i);
    element = static_cast<T>(value);
  }

 private:
  const std::byte* next_;
};

constexpr size_t kFieldBytes = 0
#define MESHSEAL_PREFLIGHT_FIELD(enumerator, type, member, name, rule, print) +sizeof(type)
#include "runtime/session/preflight_fields.def"
#undef MESHSEAL_PREFLIGHT_FIELD
    ;
static_assert(kFieldBytes <= kRecordBytes);

template <size_t N>
std::array<char, N> NameOf(const std::string& text) {
  std::string name = text;
  if (name.size() > N) name = absl::StrCat(name.substr(0, N - 9), "#", HexOf(Sha256(text)).substr(0, 8));
  std::array<char, N> field{};
  std::copy(name.begin(), name.end(), field.begin());
  return field;
}

// What people know a plan by, for a message when ranks have different ones.
std::string PlanText(const SealedPlan& sealed) {
  const Plan& plan = sealed.plan();
  const Degrees& d = plan.degrees;
  return absl::StrCat("deployment ", plan.deployment_name, "\nmodel ", plan.model_name, "\nmesh ", plan.mesh.name,
                      "\nserial ", sealed.serial(), "\ncompiler ", plan.compiler_version, "\ndegrees dp=", d.dp,
                      " pp=", d.pp, " tp=", d.tp, " ep=", d.ep, "\nlayers ", plan.layers, "\ndecode_tokens ",
                      plan.limits.decode_tokens, "\nprefill_tokens ", plan.limits.prefill_tokens, "\nprefill_chunk ",
                      plan.limits.prefill_chunk, "\nsessions ", plan.limits.sessions, "\nreduction ",
                      WordOf(plan.reduction), "\nweights_digests ", HexOf(plan.weights_digest).substr(0, 16), "\n");
}

}  // namespace

std::array<std::byte, kRecordBytes> EncodeRecord(const RankRecord& record) {
  std::array<std::byte, kRecordBytes> bytes{};
  Writer writer(bytes.data());
#define MESHSEAL_PREFLIGHT_FIELD(enumerator, type, member, name, rule, print) writer.Put(record.member);
#include "runtime/session/preflight_fields.def"
#undef MESHSEAL_PREFLIGHT_FIELD
  return bytes;
}

RankRecord DecodeRecord(const std::byte* bytes) {
  RankRecord record;
  Reader reader(bytes);
#define MESHSEAL_PREFLIGHT_FIELD(enumerator, type, member, name, rule, print) reader.Take(record.member);
#include "runtime/session/preflight_fields.def"
#undef MESHSEAL_PREFLIGHT_FIELD
  return record;
}

RankStatement StatementOf(const SealedPlan& sealed, uint32_t rank, const RankFacts& facts) {
  const Plan& plan = sealed.plan();
  RankStatement statement;
  RankRecord& record = statement.record;
  const auto text = [&statement](PreflightField field, std::string lines) {
    std::string& kept = statement.texts[static_cast<size_t>(field)];
    kept = std::move(lines);
    return Sha256(kept);
  };
  record.protocol = kPreflightProtocol;
  record.build = text(PreflightField::kBuild, facts.local.build);
  text(PreflightField::kPlanId, PlanText(sealed));
  record.plan_id = sealed.id();
  record.execution_fingerprint = plan.execution_fingerprint;
  record.numerics = text(PreflightField::kNumerics, absl::StrCat("contract ", WordOf(plan.numerics), "\n"));
  record.world = static_cast<uint32_t>(plan.mesh.rank_slots.size());
  record.backend = NameOf<16>(facts.backend);
  record.mpi_version = NameOf<64>(facts.mpi_version);
  record.cuda_version = NameOf<64>(facts.cuda_version);
  record.nccl_version = NameOf<64>(facts.nccl_version);
  record.environment = text(PreflightField::kEnvironment, facts.local.environment);
  record.policy = text(PreflightField::kPolicy, facts.policy);
  record.weights_digests = facts.weights_digests;
  record.emulated = plan.mesh.emulated || facts.emulate ? 1 : 0;
  record.rank = rank;
  if (rank < record.world) {
    const Coordinate at = CoordinateOf(plan.degrees, rank);
    record.coordinate = {at.dp, at.pp, at.tp, at.ep};
  }
  record.host = NameOf<64>(facts.local.host);
  record.machine = facts.local.machine;
  record.device = facts.device;
  record.pci_id = NameOf<16>(facts.pci_id);
  record.fabric = NameOf<64>(facts.fabric);
  record.free_memory = facts.local.free_memory;
  if (const std::optional<MemoryLimit>& limit = facts.local.memory_limit; limit.has_value()) {
    record.memory_group_id = limit->id;
    record.memory_group = NameOf<64>(limit->group);
    record.memory_left = limit->left;
  }
  record.nonce = facts.local.nonce;
  record.network = facts.job_key.has_value() ? NetworkTrust::kJobKey
                   : facts.isolated_network  ? NetworkTrust::kIsolated
                                             : NetworkTrust::kUnstated;
  statement.job_key = facts.job_key;
  return statement;
}

std::string PolicyText(const Policy& policy) {
  const auto yes_no = [](bool yes) { return yes ? "yes" : "no"; };
  std::string keyring = "none";
  if (policy.keyring.has_value()) {
    std::string content;
    for (const TrustedKey& key : policy.keyring->keys) {
      absl::StrAppend(&content, "key ", KeyIdText(key.key.id), " ");
      content.append(key.key.point.begin(), key.key.point.end());
    }
    for (const StreamSerial& serial : policy.keyring->min_serials) {
      absl::StrAppend(&content, "serial ", serial.min_serial, " ");
      content.append(serial.stream.begin(), serial.stream.end());
    }
    for (const Sha256Digest& plan : policy.keyring->revoked_plans) absl::StrAppend(&content, "revoked ", HexOf(plan));
    keyring = HexOf(Sha256(content)).substr(0, 16);
  }
  return absl::StrCat("keyring ", keyring, "\nrequire-signature ", yes_no(policy.require_signature), "\npin ",
                      policy.pinned_id.has_value() ? HexOf(*policy.pinned_id) : "none", "\nmin-serial ",
                      policy.min_serial, "\nallow-unsigned-hosts ", yes_no(policy.allow_unsigned_hosts), "\n");
}

}  // namespace meshseal::runtime
