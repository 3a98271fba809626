#include "runtime/session/session.h"

#include <chrono>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "runtime/c_api/error.h"
#include "runtime/c_api/plan_handle.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

struct meshseal_session {
  std::unique_ptr<meshseal::runtime::Session> session;
};

namespace meshseal::runtime::c_api {
namespace {

absl::StatusOr<SessionOptions> OptionsOf(const meshseal_session_options* given) {
  MESHSEAL_RETURN_IF_ERROR(CheckGiven(given, "options"));
  MESHSEAL_RETURN_IF_ERROR(CheckStructSize(given->struct_size, sizeof(*given), "options"));
  MESHSEAL_RETURN_IF_ERROR(CheckGiven(given->weights, "options->weights"));
  MESHSEAL_RETURN_IF_ERROR(CheckGiven(given->backend, "options->backend"));
  MESHSEAL_RETURN_IF_ERROR(CheckFlag(given->unverified_weights, "options->unverified_weights"));
  MESHSEAL_RETURN_IF_ERROR(CheckFlag(given->emulate, "options->emulate"));
  if (given->deadline_ms == 0) return Refuse(Reason::kUsage, "options->deadline_ms is 0");
  if (given->reserved != 0) {
    return Refuse(Reason::kUsage, absl::StrCat("options->reserved is ", given->reserved, ", expected 0"));
  }
  SessionOptions options;
  options.weights = {given->weights};
  options.unverified_weights = given->unverified_weights == 1;
  options.backend = given->backend;
  options.emulate = given->emulate == 1;
  options.deadline = std::chrono::milliseconds(given->deadline_ms);
  return options;
}

// The header's numbers, which are not those of a plan file.
absl::StatusOr<Phase> PhaseOf(int32_t phase) {
  if (phase == MESHSEAL_DECODE) return Phase::kDecode;
  if (phase == MESHSEAL_PREFILL) return Phase::kPrefill;
  return Refuse(Reason::kUsage, absl::StrCat("phase is ", phase, ", expected MESHSEAL_DECODE or MESHSEAL_PREFILL"));
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
    auto made = std::make_unique<meshseal_session>();
    MESHSEAL_ASSIGN_OR_RETURN(made->session,
                              meshseal::runtime::Session::Create(std::move(plan->sealed), std::move(asked)));
    *session = made.release();
    return absl::OkStatus();
  });
}

meshseal_error* meshseal_session_run_layer(meshseal_session* session, uint32_t layer, int32_t phase, uint32_t tokens,
                                           const float* hidden, float* output, size_t elements) {
  namespace c_api = meshseal::runtime::c_api;
  return c_api::Call([&]() -> absl::Status {
    MESHSEAL_RETURN_IF_ERROR(c_api::CheckGiven(session, "session"));
    if (elements != 0) {
      MESHSEAL_RETURN_IF_ERROR(c_api::CheckGiven(hidden, "hidden"));
      MESHSEAL_RETURN_IF_ERROR(c_api::CheckGiven(output, "output"));
    }
    meshseal::runtime::RunRequest request;
    request.layer = layer;
    MESHSEAL_ASSIGN_OR_RETURN(request.phase, c_api::PhaseOf(phase));
    request.tokens = tokens;
    request.hidden = absl::MakeConstSpan(hidden, elements);
    request.output = absl::MakeSpan(output, elements);
    meshseal::runtime::RunResult result;
    return session->session->Run(request, &result);
  });
}

void meshseal_session_destroy(meshseal_session* session) { delete session; }
