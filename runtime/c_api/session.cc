#include "runtime/session/session.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "runtime/c_api/error.h"
#include "runtime/c_api/plan_handle.h"
#include "runtime/c_api/world_handle.h"
#include "runtime/program/rank_facts.h"
#include "runtime/session/named_compute.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

struct meshseal_session {
  std::unique_ptr<meshseal::runtime::Session> session;
};

namespace meshseal::runtime::c_api {
namespace {

constexpr uint32_t kMostLoadThreads = 1024;

absl::StatusOr<SessionOptions> OptionsOf(const meshseal_session_options* given) {
  MESHSEAL_RETURN_IF_ERROR(CheckGiven(given, "options"));
  MESHSEAL_RETURN_IF_ERROR(CheckStructSize(given->struct_size, sizeof(*given), "options"));
  MESHSEAL_RETURN_IF_ERROR(CheckGiven(given->backend, "options->backend"));
  MESHSEAL_RETURN_IF_ERROR(CheckFlag(given->unverified_weights, "options->unverified_weights"));
  MESHSEAL_RETURN_IF_ERROR(CheckFlag(given->emulate, "options->emulate"));
  MESHSEAL_RETURN_IF_ERROR(CheckFlag(given->isolated_network, "options->isolated_network"));
  MESHSEAL_RETURN_IF_ERROR(CheckFlag(given->without_management_library, "options->without_management_library"));
  MESHSEAL_RETURN_IF_ERROR(CheckWait(given->deadline_ms, "options->deadline_ms"));
  MESHSEAL_RETURN_IF_ERROR(CheckWait(given->load_deadline_ms, "options->load_deadline_ms"));
  if (given->job_key != nullptr && given->isolated_network == 1) {
    return Refuse(Reason::kUsage,
                  "options->job_key and options->isolated_network are both given, expected one of them");
  }
  if (given->load_threads > kMostLoadThreads) {
    return Refuse(Reason::kUsage, absl::StrCat("options->load_threads is ", given->load_threads, ", expected at most ",
                                               kMostLoadThreads));
  }
  SessionOptions options;
  if (given->weights != nullptr) options.weights = {given->weights};
  if (given->digests != nullptr) options.digests = given->digests;
  options.unverified_weights = given->unverified_weights == 1;
  MESHSEAL_ASSIGN_OR_RETURN(options.compute, MakeCompute(given->backend, given->without_management_library == 1));
  options.emulate = given->emulate == 1;
  if (given->world != nullptr) options.world = given->world->ranks;
  if (given->job_key != nullptr) {
    MESHSEAL_ASSIGN_OR_RETURN(options.job_key, JobKey::Read(given->job_key));
  }
  options.isolated_network = given->isolated_network == 1;
  options.deadline = std::chrono::milliseconds(given->deadline_ms);
  options.load_deadline = std::chrono::milliseconds(given->load_deadline_ms);
  options.load_threads = given->load_threads;
  return options;
}

// The header's numbers, which are not those of a plan file.
absl::StatusOr<Phase> PhaseOf(int32_t phase) {
  if (phase == MESHSEAL_DECODE) return Phase::kDecode;
  if (phase == MESHSEAL_PREFILL) return Phase::kPrefill;
  return Refuse(Reason::kUsage,
                absl::StrCat("run->phase is ", phase, ", expected MESHSEAL_DECODE or MESHSEAL_PREFILL"));
}

absl::StatusOr<RunRequest> RequestOf(const meshseal_run* given) {
  MESHSEAL_RETURN_IF_ERROR(CheckGiven(given, "run"));
  MESHSEAL_RETURN_IF_ERROR(CheckStructSize(given->struct_size, sizeof(*given), "run"));
  if (given->elements != 0) {
    MESHSEAL_RETURN_IF_ERROR(CheckGiven(given->hidden, "run->hidden"));
    MESHSEAL_RETURN_IF_ERROR(CheckGiven(given->output, "run->output"));
  }
  RunRequest request;
  request.model = {given->model};
  request.layer = given->layer;
  MESHSEAL_ASSIGN_OR_RETURN(request.phase, PhaseOf(given->phase));
  request.tokens = given->tokens;
  request.hidden = absl::MakeConstSpan(given->hidden, given->elements);
  request.output = absl::MakeSpan(given->output, given->elements);
  if (given->token_ids != nullptr) request.token_ids = absl::MakeConstSpan(given->token_ids, given->tokens);
  if (given->given_ids != nullptr) request.routing.experts = absl::MakeConstSpan(given->given_ids, given->slots);
  if (given->given_weights != nullptr) {
    request.routing.weights = absl::MakeConstSpan(given->given_weights, given->slots);
  }
  return request;
}

// The plan whose numbers say how large arrays are; `request` then runs on no other model than its.
absl::StatusOr<std::shared_ptr<const SealedPlan>> PlanFor(const Session& session, RunRequest& request) {
  if (request.model.generation == 0) request.model = session.model();
  if (request.model.generation == 0) return Refuse(Reason::kStaleModel, "no model is resident");
  return session.plan();
}

// Whether the arrays for what is selected have the size that the run will fill.
absl::Status CheckSelected(const Session& session, size_t slots, RunRequest& request) {
  MESHSEAL_ASSIGN_OR_RETURN(const std::shared_ptr<const SealedPlan> sealed, PlanFor(session, request));
  const std::optional<uint32_t> layer_class = ClassOfLayer(sealed->plan(), request.layer);
  if (!layer_class.has_value()) return absl::OkStatus();  // the run refuses it
  const uint32_t top_k = sealed->plan().layer_classes[*layer_class].top_k;
  if (slots == uint64_t{request.tokens} * top_k) return absl::OkStatus();
  return Refuse(Reason::kUsage, absl::StrCat("run->slots is ", slots, ", ", request.tokens, " tokens of ", top_k,
                                             " experts have ", uint64_t{request.tokens} * top_k));
}

// The same of the array for how replicas ended.
absl::Status CheckReplicas(const Session& session, uint32_t replicas, RunRequest& request) {
  MESHSEAL_ASSIGN_OR_RETURN(const std::shared_ptr<const SealedPlan> sealed, PlanFor(session, request));
  const size_t expected = sealed->plan().mesh.rank_slots.size() / RanksOfScope(sealed->plan());
  if (replicas == expected) return absl::OkStatus();
  return Refuse(Reason::kUsage, absl::StrCat("run->replicas is ", replicas, ", the plan has ", expected));
}

int32_t EndOf(const std::optional<absl::Status>& replica) {
  if (!replica.has_value()) return MESHSEAL_REPLICA_ELSEWHERE;
  return replica->ok() ? MESHSEAL_REPLICA_WELL : MESHSEAL_REPLICA_FAILED;
}

absl::Status Run(Session& session, const meshseal_run* given) {
  MESHSEAL_ASSIGN_OR_RETURN(RunRequest request, RequestOf(given));
  if (given->selected_ids != nullptr || given->selected_weights != nullptr) {
    MESHSEAL_RETURN_IF_ERROR(CheckSelected(session, given->slots, request));
  }
  if (given->replica_ends != nullptr) MESHSEAL_RETURN_IF_ERROR(CheckReplicas(session, given->replicas, request));
  RunResult result;
  absl::Status status = session.Run(request, &result);
  if (given->replica_ends != nullptr) {
    std::transform(result.replicas.begin(), result.replicas.end(), given->replica_ends, EndOf);
    // A world that fails together is one replica, and has run where there is a result.
    if (result.replicas.empty() && !result.ranks.empty()) *given->replica_ends = EndOf(status);
  }
  // Replicas that did not fail have their part.
  if (!status.ok() && result.replicas.empty()) return status;
  if (given->selected_ids != nullptr) {
    std::copy(result.expert_ids.begin(), result.expert_ids.end(), given->selected_ids);
  }
  if (given->selected_weights != nullptr) {
    std::copy(result.expert_weights.begin(), result.expert_weights.end(), given->selected_weights);
  }
  return status;
}

}  // namespace
}  // namespace meshseal::runtime::c_api

meshseal_error* meshseal_session_create(meshseal_plan* plan, const meshseal_session_options* options,
                                        meshseal_session** session) {
  namespace c_api = meshseal::runtime::c_api;
  return c_api::Call([&]() -> absl::Status {
    MESHSEAL_RETURN_IF_ERROR(c_api::CheckGiven(plan, "plan"));
    MESHSEAL_RETURN_IF_ERROR(c_api::CheckGiven(session, "session"));
    MESHSEAL_ASSIGN_OR_RETURN(meshseal::runtime::SessionOptions asked, c_api::OptionsOf(options));
    asked.policy = plan->policy;
    auto made = std::make_unique<meshseal_session>();
    MESHSEAL_ASSIGN_OR_RETURN(made->session,
                              meshseal::runtime::Session::Create(std::move(plan->sealed), std::move(asked)));
    *session = made.release();
    return absl::OkStatus();
  });
}

meshseal_error* meshseal_session_replace(meshseal_session* session, meshseal_plan* plan,
                                         const meshseal_session_options* options, uint64_t* model) {
  namespace c_api = meshseal::runtime::c_api;
  return c_api::Call([&]() -> absl::Status {
    MESHSEAL_RETURN_IF_ERROR(c_api::CheckGiven(session, "session"));
    MESHSEAL_RETURN_IF_ERROR(c_api::CheckGiven(plan, "plan"));
    MESHSEAL_RETURN_IF_ERROR(c_api::CheckGiven(model, "model"));
    MESHSEAL_ASSIGN_OR_RETURN(meshseal::runtime::SessionOptions asked, c_api::OptionsOf(options));
    asked.policy = plan->policy;
    MESHSEAL_ASSIGN_OR_RETURN(const meshseal::runtime::ModelHandle handle,
                              session->session->Replace(std::move(plan->sealed), std::move(asked)));
    *model = handle.generation;
    return absl::OkStatus();
  });
}

meshseal_error* meshseal_session_unload(meshseal_session* session, uint64_t model) {
  namespace c_api = meshseal::runtime::c_api;
  return c_api::Call([&]() -> absl::Status {
    MESHSEAL_RETURN_IF_ERROR(c_api::CheckGiven(session, "session"));
    return session->session->Unload({model});
  });
}

uint64_t meshseal_session_model(const meshseal_session* session) {
  return session == nullptr ? 0 : session->session->model().generation;
}

meshseal_error* meshseal_session_run(meshseal_session* session, const meshseal_run* run) {
  namespace c_api = meshseal::runtime::c_api;
  return c_api::Call([&]() -> absl::Status {
    MESHSEAL_RETURN_IF_ERROR(c_api::CheckGiven(session, "session"));
    return c_api::Run(*session->session, run);
  });
}

void meshseal_session_destroy(meshseal_session* session) { delete session; }
