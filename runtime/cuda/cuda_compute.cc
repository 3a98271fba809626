#include "runtime/cuda/cuda_compute.h"

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/comm/agreement.h"
#include "runtime/cuda/cuda_executor.h"
#include "runtime/cuda/cuda_status.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/device_memory.h"
#include "runtime/cuda/device_weights.h"
#include "runtime/cuda/lone_collective.h"
#include "runtime/cuda/loopback_collective.h"
#include "runtime/cuda/management_library.h"
#include "runtime/cuda/nccl_collective.h"
#include "runtime/cuda/nccl_settings.h"
#include "runtime/program/executed.h"
#include "runtime/program/rank_facts.h"
#include "runtime/session/compared_environment.h"
#include "schema/mesh_view.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::cuda {
namespace {

using runtime::RankProgram;

// Bytes of an agreement's messages for each member of a group: its addends travel on devices.
constexpr uint64_t kGroupMessageBytes = 1024;

// How the ranks reach each other.
enum class Ranks { kLoopback, kNccl };

constexpr const char* NameOf(Ranks ranks) { return ranks == Ranks::kNccl ? "cuda" : "cuda-loopback"; }

class CudaRank : public runtime::RankCompute {
 public:
  // `endings`: null for a loopback.
  CudaRank(const SealedPlan& plan, uint32_t rank, Ranks ranks, bool emulate, const CudaOptions& options,
           std::shared_ptr<NcclEndings> endings, HungFlag hung)
      : plan_(plan.plan()),
        rank_(rank),
        ranks_(ranks),
        emulate_(emulate),
        options_(options),
        endings_(std::move(endings)),
        hung_(std::move(hung)) {}

  absl::Status Describe(runtime::RankFacts* facts) override {
    if (ranks_ == Ranks::kNccl) {
      MESHSEAL_ASSIGN_OR_RETURN(facts->nccl_version, NcclVersion());
      const NcclSettings settings = NcclSettings::OfProcess();
      MESHSEAL_RETURN_IF_ERROR(CheckNccl(plan_.mesh, facts->nccl_version, settings.environment()));
      MESHSEAL_RETURN_IF_ERROR(CheckSums(plan_.reduction, settings.environment()));
      facts->local.environment = runtime::ComparedEnvironment(settings.variables());
    }
    MESHSEAL_ASSIGN_OR_RETURN(std::vector<Device> devices, VisibleDevices());
    if (ranks_ == Ranks::kLoopback) devices.resize(1);
    MESHSEAL_ASSIGN_OR_RETURN(Device device, DeviceOfRank(plan_, rank_, emulate_, devices));
    std::string driver = "unknown driver";
    std::optional<ManagedFacts> managed;
    if (!options_.without_management_library) {
      MESHSEAL_ASSIGN_OR_RETURN(const ManagementLibrary library, ManagementLibrary::Load(options_.management_library));
      MESHSEAL_ASSIGN_OR_RETURN(driver, library.DriverVersion());
      driver = absl::StrCat("driver ", driver);
      MESHSEAL_ASSIGN_OR_RETURN(managed, library.FactsOf(UuidText(device.uuid)));
      if (managed->mig) {
        return Refuse(Reason::kDeviceIdentity, absl::StrCat("device ", UuidText(device.uuid), " at ", device.pci_id,
                                                            " is cut into instances (MIG)"));
      }
      // The driver writes the domain with eight digits.
      if (!absl::EndsWith(absl::AsciiStrToLower(managed->pci_id), device.pci_id)) {
        return Refuse(Reason::kDeviceIdentity, absl::StrCat("device ", UuidText(device.uuid), " is at ", device.pci_id,
                                                            " for CUDA and at ", managed->pci_id, " for the driver"));
      }
      facts->fabric = managed->fabric;
    }
    if (!emulate_) {
      MESHSEAL_RETURN_IF_ERROR(CheckDeviceKind(plan_, rank_, device, managed.has_value() ? &*managed : nullptr));
      MESHSEAL_RETURN_IF_ERROR(CheckPeers(plan_, rank_, device, devices));
    }
    MESHSEAL_ASSIGN_OR_RETURN(const std::string version, CudaVersion());
    facts->backend = NameOf(ranks_);
    facts->cuda_version = absl::StrCat(version, ", ", driver);
    facts->device = device.uuid;
    facts->pci_id = device.pci_id;
    MESHSEAL_ASSIGN_OR_RETURN(facts->local.free_memory, FreeMemory(device));
    device_ = std::move(device);
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<runtime::WeightMemory>> ReserveWeights(uint64_t bytes) override {
    return ReserveDeviceWeights(device_->ordinal, bytes, hung_);
  }

  absl::StatusOr<std::unique_ptr<runtime::Executor>> ReserveExecutor(absl::Span<const RankProgram* const> programs,
                                                                     const RankMemory& memory,
                                                                     runtime::Communicator& group,
                                                                     const runtime::ExecutorOptions& options) override {
    MESHSEAL_RETURN_IF_ERROR(group.Reserve(group.size() * kGroupMessageBytes));
    MESHSEAL_ASSIGN_OR_RETURN(std::unique_ptr<CudaExecutor> executor,
                              CudaExecutor::Reserve(plan_, memory, *device_, programs, group, options, hung_));
    executor_ = executor.get();
    waits_ = {options.deadline, options.drain};
    programs_.assign(programs.begin(), programs.end());
    return executor;
  }

  absl::Status Bind(const runtime::RankWeights& weights, runtime::Communicator& group) override {
    absl::StatusOr<DeviceTables> tables = MakeTables(weights);
    MESHSEAL_RETURN_IF_ERROR(runtime::Agree(group, tables.status()));
    MESHSEAL_ASSIGN_OR_RETURN(std::unique_ptr<DeviceCollective> collective, MakeCollective(group));
    executor_->Bind(*std::move(tables), std::move(collective));
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<DeviceTables> MakeTables(const runtime::RankWeights& weights) {
    MESHSEAL_RETURN_IF_ERROR(CheckBound(*device_));
    MESHSEAL_RETURN_IF_CUDA_ERROR(cudaSetDevice(device_->ordinal), absl::StrCat("device ", device_->pci_id));
    const LayerRange stage = runtime::LayersOfStage(plan_, CoordinateOf(plan_.degrees, rank_).pp);
    std::vector<const runtime::LayerWeights*> layers;
    for (uint32_t layer = stage.first; layer < stage.last; ++layer) {
      if (weights.Layer(layer) != nullptr) layers.push_back(weights.Layer(layer));
    }
    return DeviceTables::Make(programs_, layers);
  }

  absl::StatusOr<std::unique_ptr<DeviceCollective>> MakeCollective(runtime::Communicator& group) {
    if (group.size() == 1) return MakeLoneCollective();
    if (ranks_ == Ranks::kLoopback) return MakeLoopbackCollective(group);
    return MakeNcclCollective(group, waits_, endings_);
  }

  const Plan& plan_;
  const uint32_t rank_;
  const Ranks ranks_;
  const bool emulate_;
  const CudaOptions options_;
  const std::shared_ptr<NcclEndings> endings_;
  const HungFlag hung_;
  std::optional<Device> device_;
  CudaExecutor* executor_ = nullptr;  // the rank's; gone when the rank is
  NcclWaits waits_;
  std::vector<const RankProgram*> programs_;
};

class CudaCompute : public runtime::Compute {
 public:
  CudaCompute(Ranks ranks, const CudaOptions& options)
      : ranks_(ranks), options_(options), endings_(ranks == Ranks::kNccl ? std::make_shared<NcclEndings>() : nullptr) {}

  absl::string_view name() const override { return NameOf(ranks_); }
  absl::Span<const Numerics> numerics() const override { return CudaNumerics(); }
  std::optional<Transport> transport() const override {
    if (ranks_ == Ranks::kNccl) return Transport::kNccl;
    return std::nullopt;
  }
  bool emulates() const override { return ranks_ == Ranks::kLoopback; }
  // Switches may not add float32 unless somebody wants it: their sums differ from call to call.
  std::string SettleSums(Reduction reduction) const override {
    if (ranks_ == Ranks::kLoopback) return "";
    if (!CheckSums(reduction, NcclSettings::OfProcess().environment()).ok()) ::setenv(kNvlsVariable, "0", 1);
    return SumsText(reduction, NcclSettings::OfProcess().environment());
  }
  absl::Status CheckPlan(const Plan& plan) const override { return runtime::CheckExecuted(plan, ExecutorKind::kCuda); }
  absl::StatusOr<std::unique_ptr<runtime::RankCompute>> MakeRank(const SealedPlan& plan, uint32_t rank,
                                                                 bool emulate) override {
    return std::make_unique<CudaRank>(plan, rank, ranks_, emulate || emulates(), options_, endings_, hung_);
  }

 private:
  const Ranks ranks_;
  const CudaOptions options_;
  const std::shared_ptr<NcclEndings> endings_;  // of the ranks' communicators, which the last one of them waits for
  const HungFlag hung_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace

absl::Status CheckDevices() { return VisibleDevices().status(); }

std::shared_ptr<runtime::Compute> MakeNcclCompute(const CudaOptions& options) {
  return std::make_shared<CudaCompute>(Ranks::kNccl, options);
}

std::shared_ptr<runtime::Compute> MakeLoopbackCompute(const CudaOptions& options) {
  return std::make_shared<CudaCompute>(Ranks::kLoopback, options);
}

}  // namespace meshseal::cuda
