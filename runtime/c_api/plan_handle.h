// What a meshseal_plan is.
#ifndef MESHSEAL_RUNTIME_C_API_PLAN_HANDLE_H_
#define MESHSEAL_RUNTIME_C_API_PLAN_HANDLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/include/meshseal/meshseal.h"
#include "schema/policy.h"
#include "schema/sealed_plan.h"

// What the handle answers is copied, so that it still does when a session has taken the plan.
struct meshseal_plan {
  meshseal_plan(meshseal::SealedPlan opened, meshseal::Policy asked);

  meshseal::SealedPlan sealed;  // moved from when a session has taken it
  meshseal::Policy policy;      // that it was opened with
  std::string id;
  uint64_t serial;
  std::optional<meshseal::Signer> signer;
  std::string signer_key_id;
  uint32_t hidden;
  uint32_t layers;
  uint32_t world;
  uint32_t replicas;            // that fail alone
  std::vector<uint32_t> top_k;  // by layer; 0 without experts
};

#endif  // MESHSEAL_RUNTIME_C_API_PLAN_HANDLE_H_
