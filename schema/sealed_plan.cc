#include "schema/sealed_plan.h"

#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/meaning/meaning.h"
#include "schema/minisign_signature.h"
#include "schema/plan_codec.h"
#include "schema/reason.h"
#include "schema/sealed_file.h"
#include "schema/small_file.h"
#include "schema/status_macros.h"
#include "schema/within_memory.h"

namespace meshseal {
namespace {

std::string KeyText(const TrustedKey& trusted) {
  return absl::StrCat(trusted.name, " (", KeyIdText(trusted.key.id), ")");
}

// All keys of a keyring, for a message.
std::string KeysText(const Keyring& keyring) {
  return absl::StrJoin(keyring.keys, ", ",
                       [](std::string* out, const TrustedKey& key) { absl::StrAppend(out, KeyText(key)); });
}

absl::StatusOr<std::optional<Signer>> CheckSignature(absl::string_view file,
                                                     const std::optional<std::string>& signature,
                                                     const Policy& policy) {
  if (!policy.keyring.has_value()) {
    if (!policy.require_signature) return std::nullopt;
    return Refuse(Reason::kKeyring, "a signature is required, but no keyring says which keys are trusted");
  }
  if (!signature.has_value()) {
    return Refuse(Reason::kSignatureMissing, absl::StrCat("no signature, expected one by ", KeysText(*policy.keyring)));
  }
  MESHSEAL_ASSIGN_OR_RETURN(const DetachedSignature parsed, DetachedSignature::Parse(*signature));
  for (const TrustedKey& trusted : policy.keyring->keys) {
    if (trusted.key.id != parsed.key_id()) continue;
    MESHSEAL_ASSIGN_OR_RETURN(std::string comment, parsed.Verify(file, trusted.key));
    return Signer{trusted.name, trusted.key.id, std::move(comment)};
  }
  return Refuse(Reason::kUntrustedKey, absl::StrCat("signed by key ", KeyIdText(parsed.key_id()), ", trusted are ",
                                                    KeysText(*policy.keyring)));
}

absl::Status CheckSerial(uint64_t serial, uint64_t lowest, absl::string_view where) {
  if (serial >= lowest) return absl::OkStatus();
  return Refuse(Reason::kSerialTooLow,
                absl::StrCat("serial ", serial, ", the lowest one accepted", where, " is ", lowest));
}

// What the header alone decides.
absl::Status CheckPolicy(const SealFacts& facts, const Policy& policy) {
  if (policy.keyring.has_value()) {
    for (const Sha256Digest& revoked : policy.keyring->revoked_plans) {
      if (revoked != facts.plan_id) continue;
      return Refuse(Reason::kRevokedPlan, absl::StrCat("plan id ", HexOf(revoked), " is revoked by the keyring"));
    }
  }
  if (policy.pinned_id.has_value() && *policy.pinned_id != facts.plan_id) {
    return Refuse(Reason::kPinnedId,
                  absl::StrCat("plan id ", HexOf(facts.plan_id), ", pinned is ", HexOf(*policy.pinned_id)));
  }
  MESHSEAL_RETURN_IF_ERROR(CheckSerial(facts.serial, policy.min_serial, ""));
  if (!policy.keyring.has_value()) return absl::OkStatus();
  for (const StreamSerial& row : policy.keyring->min_serials) {
    if (row.stream != facts.stream) continue;
    MESHSEAL_RETURN_IF_ERROR(CheckSerial(facts.serial, row.min_serial, " of this deployment"));
  }
  return absl::OkStatus();
}

// What the content decides, of a plan that passed the other gates: on one host a file is as trustworthy as the host,
// and over several somebody must vouch for it.
absl::Status CheckHosts(const Plan& plan, const Policy& policy, bool is_signed) {
  if (is_signed || policy.pinned_id.has_value() || policy.allow_unsigned_hosts) return absl::OkStatus();
  std::set<uint32_t> nodes;
  for (const RankSlot& slot : plan.mesh.rank_slots) nodes.insert(slot.node);
  if (nodes.size() <= 1) return absl::OkStatus();
  return Refuse(Reason::kUnsignedHosts,
                absl::StrCat("a plan for ", nodes.size(),
                             " hosts that nobody vouches for (--trust, --pin, or --allow-unsigned-hosts)"));
}

}  // namespace

struct SealedPlan::Content {
  SealFacts facts;
  std::optional<Signer> signer;
  Plan plan;
};

SealedPlan::SealedPlan(std::unique_ptr<const Content> content) : content_(std::move(content)) {}
SealedPlan::SealedPlan(SealedPlan&&) noexcept = default;
SealedPlan& SealedPlan::operator=(SealedPlan&&) noexcept = default;
SealedPlan::~SealedPlan() = default;

const Plan& SealedPlan::plan() const { return content_->plan; }
const Sha256Digest& SealedPlan::id() const { return content_->facts.plan_id; }
uint64_t SealedPlan::serial() const { return content_->facts.serial; }
const std::optional<Signer>& SealedPlan::signer() const { return content_->signer; }

absl::StatusOr<SealedPlan> SealedPlan::Open(absl::string_view file, const Policy& policy,
                                            std::optional<absl::string_view> signature) {
  return WithinMemory([&]() -> absl::StatusOr<SealedPlan> {
    const std::string copy(file);
    std::optional<std::string> signature_copy;
    if (signature.has_value()) signature_copy.emplace(*signature);
    MESHSEAL_RETURN_IF_ERROR(CheckEnvelope(copy, PayloadType::kPlan));
    absl::StatusOr<std::optional<Signer>> signer = CheckSignature(copy, signature_copy, policy);
    MESHSEAL_RETURN_IF_ERROR(AtGate(Gate::kSignature, signer.status()));
    const SealFacts facts = FactsOf(copy);
    MESHSEAL_RETURN_IF_ERROR(AtGate(Gate::kPolicy, CheckPolicy(facts, policy)));
    absl::StatusOr<Plan> plan = DecodePlan(PayloadOf(copy));
    MESHSEAL_RETURN_IF_ERROR(AtGate(Gate::kStructure, plan.status()));
    MESHSEAL_RETURN_IF_ERROR(AtGate(Gate::kMeaning, CheckMeaning(*plan, facts)));
    MESHSEAL_RETURN_IF_ERROR(AtGate(Gate::kPolicy, CheckHosts(*plan, policy, signer->has_value())));
    return SealedPlan(
        std::unique_ptr<const Content>(new const Content{facts, std::move(signer).value(), std::move(plan).value()}));
  });
}

std::optional<Gate> GateOf(const absl::Status& refusal) {
  const std::optional<Reason> reason = ReasonOf(refusal);
  if (!reason.has_value()) return std::nullopt;
  const absl::string_view slug = RowOf(*reason).slug;
  const absl::string_view prefix = slug.substr(0, slug.find('.'));
  for (const GateRow& row : kGates) {
    if (prefix == row.name) return row.gate;
  }
  return std::nullopt;
}

absl::StatusOr<std::string> ReadPlanFile(const std::filesystem::path& path) {
  return ReadSmallFile(path, "a plan", kSealSize + kMaxPayload, Reason::kPayloadTooLarge);
}

std::filesystem::path SignaturePathOf(const std::filesystem::path& path) { return path.string() + ".minisig"; }

absl::StatusOr<std::optional<std::string>> ReadSignatureFile(const std::filesystem::path& path) {
  return WithinMemory([&]() -> absl::StatusOr<std::optional<std::string>> {
    const std::filesystem::path signature = SignaturePathOf(path);
    std::error_code error;
    const std::filesystem::file_status status = std::filesystem::symlink_status(signature, error);
    if (status.type() == std::filesystem::file_type::not_found) return std::nullopt;
    MESHSEAL_ASSIGN_OR_RETURN(std::string text,
                              ReadSmallFile(signature, "a signature", kMaxSignatureFile, Reason::kSignatureFormat));
    return std::optional<std::string>(std::move(text));
  });
}

absl::StatusOr<std::string> SealPlan(const Plan& plan, uint64_t serial) {
  return WithinMemory([&]() -> absl::StatusOr<std::string> {
    std::string file = SealPayload(EncodePlan(plan), PayloadType::kPlan, serial, StreamOf(plan.deployment_name));
    Policy policy;
    policy.allow_unsigned_hosts = true;  // nobody can have signed it yet
    MESHSEAL_RETURN_IF_ERROR(SealedPlan::Open(file, policy).status());
    return file;
  });
}

}  // namespace meshseal
