#include "runtime/session/compute.h"

#include <string>
#include <utility>

#include "runtime/backend/backend.h"
#include "runtime/execute/rank_executor.h"
#include "runtime/program/executed.h"
#include "schema/status_macros.h"

namespace meshseal::runtime {
namespace {

class HostRank : public RankCompute {
 public:
  explicit HostRank(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {}

  absl::Status Describe(RankFacts* facts) override {
    facts->backend = std::string(backend_->name());
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<WeightMemory>> ReserveWeights(uint64_t bytes) override {
    return ReserveHostWeights(bytes);
  }
  absl::StatusOr<std::unique_ptr<Executor>> ReserveExecutor(absl::Span<const RankProgram* const>,
                                                            const RankMemory& memory, Communicator& group,
                                                            const ExecutorOptions& options) override {
    MESHSEAL_RETURN_IF_ERROR(group.Reserve(memory.collective));
    return RankExecutor::Reserve(WorkBytes(memory), *backend_, group, options);
  }
  absl::Status Bind(const RankWeights&, Communicator&) override { return absl::OkStatus(); }

 private:
  const std::unique_ptr<Backend> backend_;
};

class HostCompute : public Compute {
 public:
  explicit HostCompute(std::unique_ptr<Backend> backend) : backend_(std::move(backend)), name_(backend_->name()) {}

  absl::string_view name() const override { return name_; }
  absl::Span<const Numerics> numerics() const override { return backend_->numerics(); }
  std::optional<Transport> transport() const override { return std::nullopt; }
  bool emulates() const override { return false; }
  absl::Status CheckPlan(const Plan& plan) const override { return CheckExecuted(plan, ExecutorKind::kReference); }
  absl::StatusOr<std::unique_ptr<RankCompute>> MakeRank(const SealedPlan&, uint32_t, bool) override {
    MESHSEAL_ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, MakeBackend(name_));
    return std::make_unique<HostRank>(std::move(backend));
  }

 private:
  const std::unique_ptr<Backend> backend_;  // tells what those of the ranks can
  const std::string name_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<Compute>> MakeHostCompute(absl::string_view backend) {
  MESHSEAL_ASSIGN_OR_RETURN(std::unique_ptr<Backend> made, MakeBackend(backend));
  return std::make_shared<HostCompute>(std::move(made));
}

}  // namespace meshseal::runtime
