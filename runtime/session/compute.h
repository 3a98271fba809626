// What computes for the ranks of a session: a backend of the host, or devices, which a library of their own brings
// (runtime/cuda). A session is the same over all of them.
#ifndef MESHSEAL_RUNTIME_SESSION_COMPUTE_H_
#define MESHSEAL_RUNTIME_SESSION_COMPUTE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/comm/communicator.h"
#include "runtime/execute/executor.h"
#include "runtime/program/rank_program.h"
#include "runtime/session/rank_record.h"
#include "runtime/weights/rank_weights.h"
#include "runtime/weights/weight_memory.h"
#include "schema/plan.h"
#include "schema/sealed_plan.h"
#include "schema/terms.h"

namespace meshseal::runtime {

// Of one rank. Used by one thread at a time, of which each call may be another; what it makes may not outlive it.
class RankCompute {
 public:
  virtual ~RankCompute() = default;

  // What the preflight compares, into `facts`: the backend's name, and of a device its identity, versions and free
  // memory. Reserves nothing. Reasons kDevice, kDeviceIdentity.
  virtual absl::Status Describe(RankFacts* facts) = 0;

  // Memory for the rank's weights. Reasons kOutOfMemory, kDevice.
  virtual absl::StatusOr<std::unique_ptr<WeightMemory>> ReserveWeights(uint64_t bytes) = 0;

  // What runs `programs`, all of the rank's, in what its memory plan charges for work and for the collective. They and
  // `group`, the rank's expert group, must live longer. Local. Reasons kOutOfMemory, kDevice.
  virtual absl::StatusOr<std::unique_ptr<Executor>> ReserveExecutor(absl::Span<const RankProgram* const> programs,
                                                                    const RankMemory& memory, Communicator& group,
                                                                    const ExecutorOptions& options) = 0;

  // Called once, by all ranks, when all of them have loaded their weights and before the first run: what is still to be
  // made of them, and what the ranks of `group` need of each other. Reasons kOutOfMemory, kDevice, kDeadline, those of
  // `group`.
  virtual absl::Status Bind(const RankWeights& weights, Communicator& group) = 0;
};

// Of a process. Safe to share between threads.
class Compute {
 public:
  virtual ~Compute() = default;

  // The name that a session asks for.
  virtual absl::string_view name() const = 0;

  // The numerics contracts that it satisfies.
  virtual absl::Span<const Numerics> numerics() const = 0;

  // How its ranks' addends travel, where it does not leave that to the session's world.
  virtual std::optional<Transport> transport() const = 0;

  // Whether its ranks stand in for the plan's devices.
  virtual bool emulates() const = 0;

  // How its ranks' addends become sums of `reduction`, for people; empty where it leaves that to the session's world.
  // What of it has to be decided and nobody has decided, is decided now, in this process's environment: before the
  // first session and before other threads read that.
  virtual std::string SettleSums(Reduction reduction) const {
    static_cast<void>(reduction);
    return "";
  }

  // OK, or reason kNotBuilt with everything in `plan` that it does not execute.
  virtual absl::Status CheckPlan(const Plan& plan) const = 0;

  // `emulate`: the plan's devices need not be there. Touches no device.
  virtual absl::StatusOr<std::unique_ptr<RankCompute>> MakeRank(const SealedPlan& plan, uint32_t rank,
                                                                bool emulate) = 0;
};

// A backend of the host by its name; reason kNotBuilt for a name that this version does not have.
absl::StatusOr<std::shared_ptr<Compute>> MakeHostCompute(absl::string_view backend);

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_SESSION_COMPUTE_H_
