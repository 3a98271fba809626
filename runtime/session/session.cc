#include "runtime/session/session.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schema/byte_text.h"
#include "schema/checked_math.h"
#include "schema/mesh_view.h"
#include "schema/plan.h"
#include "schema/reason.h"
#include "schema/status_macros.h"
#include "schema/within_memory.h"

namespace meshseal::runtime {
namespace {

// Whether both plans' ranks fit on their devices at once.
absl::Status CheckRoom(const Plan& resident, const Plan& next) {
  if (!(next.mesh == resident.mesh)) {
    return Refuse(Reason::kUsage, absl::StrCat("the plan's mesh '", next.mesh.name, "' is not the resident plan's '",
                                               resident.mesh.name, "'"));
  }
  struct Needs {
    std::optional<uint64_t> bytes = 0;
    uint64_t budget = UINT64_MAX;
  };
  std::map<std::pair<uint32_t, uint32_t>, Needs> devices;
  for (const Plan* plan : {&resident, &next}) {
    for (uint32_t rank = 0; rank < plan->memory.size(); ++rank) {
      const RankMemory& memory = plan->memory[rank];
      Needs& needs = devices[DeviceOf(plan->mesh, rank)];
      if (needs.bytes.has_value()) needs.bytes = CheckedAdd(*needs.bytes, memory.total);
      needs.budget = std::min(needs.budget, memory.budget);
    }
  }
  for (const auto& [device, needs] : devices) {
    if (needs.bytes.has_value() && *needs.bytes <= needs.budget) continue;
    return Refuse(
        Reason::kLimit,
        absl::StrCat("node ", next.mesh.nodes[device.first].name, " slot ", device.second, ": both models need ",
                     needs.bytes.has_value() ? ByteText(*needs.bytes) : "more than 64 bits hold", ", its budget is ",
                     ByteText(needs.budget), "; unload the resident one first"));
  }
  return absl::OkStatus();
}

absl::Status Stale(ModelHandle asked, ModelHandle last, bool is_live) {
  return Refuse(Reason::kStaleModel,
                absl::StrCat("model ", asked.generation, " is not resident, ",
                             is_live ? absl::StrCat("model ", last.generation, " is") : std::string("none is")));
}

}  // namespace

Session::~Session() = default;

absl::StatusOr<std::unique_ptr<Session>> Session::Create(SealedPlan plan, SessionOptions options) {
  return WithinMemory([&]() -> absl::StatusOr<std::unique_ptr<Session>> {
    std::unique_ptr<Session> session(new Session());
    MESHSEAL_ASSIGN_OR_RETURN(std::shared_ptr<ResidentModel> model,
                              ResidentModel::Load(std::move(plan), std::move(options)));
    session->Publish(std::move(model));
    return session;
  });
}

ModelHandle Session::Publish(std::shared_ptr<ResidentModel> model) {
  const std::lock_guard<std::mutex> lock(mutex_);
  plan_ = model->plan();
  live_.swap(model);
  ++last_.generation;
  return last_;  // what was live ends when `model` does, behind the lock, or with its last call
}

absl::StatusOr<ModelHandle> Session::Replace(SealedPlan plan, SessionOptions options) {
  return WithinMemory([&]() -> absl::StatusOr<ModelHandle> {
    if (!plan.valid()) return Refuse(Reason::kUsage, "the plan was moved from: it is another session's");
    const std::lock_guard<std::mutex> loading(replace_mutex_);
    if (model().generation != 0) MESHSEAL_RETURN_IF_ERROR(CheckRoom(this->plan()->plan(), plan.plan()));
    MESHSEAL_ASSIGN_OR_RETURN(std::shared_ptr<ResidentModel> next,
                              ResidentModel::Load(std::move(plan), std::move(options)));
    return Publish(std::move(next));
  });
}

absl::Status Session::Unload(ModelHandle asked) {
  std::shared_ptr<ResidentModel> retiring;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (asked.generation == 0 || asked != last_) return Stale(asked, last_, live_ != nullptr);
  // Copies are made under the lock alone.
  if (live_.use_count() > 1) return Refuse(Reason::kUsage, absl::StrCat("model ", asked.generation, " is running"));
  live_.swap(retiring);
  return absl::OkStatus();
}

ModelHandle Session::model() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return live_ == nullptr ? ModelHandle{} : last_;
}

std::shared_ptr<const SealedPlan> Session::plan() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return plan_;
}

absl::StatusOr<std::shared_ptr<ResidentModel>> Session::Asked(ModelHandle asked) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (live_ == nullptr || (asked.generation != 0 && asked != last_)) return Stale(asked, last_, live_ != nullptr);
  return live_;
}

absl::Status Session::Run(const RunRequest& request, RunResult* result) {
  return WithinMemory([&]() -> absl::Status {
    *result = RunResult{};
    MESHSEAL_ASSIGN_OR_RETURN(const std::shared_ptr<ResidentModel> model, Asked(request.model));
    return model->Run(request, result);
  });
}

absl::Status Session::RunStack(const StackRequest& request, std::vector<RunResult>* results) {
  return WithinMemory([&]() -> absl::Status {
    results->clear();
    MESHSEAL_ASSIGN_OR_RETURN(const std::shared_ptr<ResidentModel> model, Asked(request.model));
    return model->RunStack(request, results);
  });
}

uint64_t Session::resident_weight_bytes(uint32_t rank) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return live_ == nullptr ? 0 : live_->resident_weight_bytes(rank);
}

uint64_t Session::work_bytes(uint32_t rank) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return live_ == nullptr ? 0 : live_->work_bytes(rank);
}

}  // namespace meshseal::runtime
