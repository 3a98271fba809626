#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "runtime/c_api/error.h"
#include "runtime/c_api/plan_handle.h"
#include "runtime/program/rank_facts.h"
#include "schema/keyring.h"
#include "schema/policy.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::runtime::c_api {
namespace {

absl::StatusOr<Policy> PolicyOf(const meshseal_policy* given) {
  MESHSEAL_RETURN_IF_ERROR(CheckGiven(given, "policy"));
  MESHSEAL_RETURN_IF_ERROR(CheckStructSize(given->struct_size, sizeof(*given), "policy"));
  MESHSEAL_RETURN_IF_ERROR(CheckFlag(given->require_signature, "policy->require_signature"));
  MESHSEAL_RETURN_IF_ERROR(CheckFlag(given->allow_unsigned_hosts, "policy->allow_unsigned_hosts"));
  Policy policy;
  policy.min_serial = given->min_serial;
  policy.require_signature = given->require_signature == 1;
  policy.allow_unsigned_hosts = given->allow_unsigned_hosts == 1;
  if (given->pinned_id != nullptr) {
    policy.pinned_id = DigestFromHex(given->pinned_id);
    if (!policy.pinned_id.has_value()) {
      return Refuse(Reason::kUsage,
                    absl::StrCat("policy->pinned_id: expected the whole plan id, 64 lower-case hexadecimal digits, "
                                 "found '",
                                 given->pinned_id, "'"));
    }
  }
  if (given->keyring != nullptr) {
    MESHSEAL_ASSIGN_OR_RETURN(policy.keyring, ReadKeyring(given->keyring));
  }
  return policy;
}

absl::StatusOr<std::unique_ptr<meshseal_plan>> Open(const void* bytes, size_t size, const void* signature,
                                                    size_t signature_size, const meshseal_policy* policy) {
  MESHSEAL_RETURN_IF_ERROR(CheckGiven(bytes, "bytes"));
  if (signature_size != 0) MESHSEAL_RETURN_IF_ERROR(CheckGiven(signature, "signature"));
  MESHSEAL_ASSIGN_OR_RETURN(Policy asked, PolicyOf(policy));
  std::optional<absl::string_view> signature_text;
  if (signature != nullptr) signature_text = absl::string_view(static_cast<const char*>(signature), signature_size);
  MESHSEAL_ASSIGN_OR_RETURN(
      SealedPlan opened,
      SealedPlan::Open(absl::string_view(static_cast<const char*>(bytes), size), asked, signature_text));
  return std::make_unique<meshseal_plan>(std::move(opened), std::move(asked));
}

}  // namespace
}  // namespace meshseal::runtime::c_api

meshseal_plan::meshseal_plan(meshseal::SealedPlan opened, meshseal::Policy asked)
    : sealed(std::move(opened)),
      policy(std::move(asked)),
      id(meshseal::HexOf(sealed.id())),
      serial(sealed.serial()),
      signer(sealed.signer()),
      signer_key_id(signer.has_value() ? meshseal::KeyIdText(signer->key_id) : ""),
      hidden(sealed.plan().hidden),
      layers(sealed.plan().layers),
      world(static_cast<uint32_t>(sealed.plan().mesh.rank_slots.size())),
      replicas(world / meshseal::runtime::RanksOfScope(sealed.plan())),
      top_k(layers) {
  for (const meshseal::LayerClass& layer_class : sealed.plan().layer_classes) {
    for (const meshseal::LayerRange& range : layer_class.layers) {
      for (uint32_t layer = range.first; layer < range.last; ++layer) top_k[layer] = layer_class.top_k;
    }
  }
}

meshseal_error* meshseal_plan_open(const void* bytes, size_t size, const void* signature, size_t signature_size,
                                   const meshseal_policy* policy, meshseal_plan** plan) {
  namespace c_api = meshseal::runtime::c_api;
  return c_api::Call([&]() -> absl::Status {
    MESHSEAL_RETURN_IF_ERROR(c_api::CheckGiven(plan, "plan"));
    MESHSEAL_ASSIGN_OR_RETURN(std::unique_ptr<meshseal_plan> opened,
                              c_api::Open(bytes, size, signature, signature_size, policy));
    *plan = opened.release();
    return absl::OkStatus();
  });
}

const char* meshseal_plan_id(const meshseal_plan* plan) { return plan == nullptr ? nullptr : plan->id.c_str(); }

uint64_t meshseal_plan_serial(const meshseal_plan* plan) { return plan == nullptr ? 0 : plan->serial; }

const char* meshseal_plan_signer(const meshseal_plan* plan) {
  return plan == nullptr || !plan->signer.has_value() ? nullptr : plan->signer->name.c_str();
}

const char* meshseal_plan_signer_key_id(const meshseal_plan* plan) {
  return plan == nullptr || !plan->signer.has_value() ? nullptr : plan->signer_key_id.c_str();
}

const char* meshseal_plan_trusted_comment(const meshseal_plan* plan) {
  return plan == nullptr || !plan->signer.has_value() ? nullptr : plan->signer->trusted_comment.c_str();
}

uint32_t meshseal_plan_hidden(const meshseal_plan* plan) { return plan == nullptr ? 0 : plan->hidden; }

uint32_t meshseal_plan_layers(const meshseal_plan* plan) { return plan == nullptr ? 0 : plan->layers; }

uint32_t meshseal_plan_world(const meshseal_plan* plan) { return plan == nullptr ? 0 : plan->world; }

uint32_t meshseal_plan_replicas(const meshseal_plan* plan) { return plan == nullptr ? 0 : plan->replicas; }

uint32_t meshseal_plan_top_k(const meshseal_plan* plan, uint32_t layer) {
  return plan == nullptr || layer >= plan->top_k.size() ? 0 : plan->top_k[layer];
}

void meshseal_plan_close(meshseal_plan* plan) { delete plan; }
