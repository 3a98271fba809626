// Executes a rank's programs on its device.
//
// A program's steps are enqueued on one stream, its collective among them; the host waits once, at the end, and reads
// one report. A decode program is captured as a graph, once for each layer and bucket of tokens, and then replayed:
// what differs from step to step (tokens, rows) is copied from fixed places of the host. With other ranks the first run
// is not captured, because their transport makes its connections in it. Where the collective cannot be captured, every
// step is enqueued anew.
#ifndef MESHSEAL_RUNTIME_CUDA_CUDA_EXECUTOR_H_
#define MESHSEAL_RUNTIME_CUDA_CUDA_EXECUTOR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/comm/communicator.h"
#include "runtime/cuda/cuda_backend.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/device_collective.h"
#include "runtime/cuda/device_memory.h"
#include "runtime/cuda/device_tables.h"
#include "runtime/cuda/step_scratch.h"
#include "runtime/cuda/token_exchange.h"
#include "runtime/execute/executor.h"
#include "runtime/execute/step_frame.h"
#include "runtime/execute/step_trail.h"
#include "runtime/program/rank_program.h"
#include "schema/plan.h"

namespace meshseal::cuda {

class CudaExecutor : public runtime::Executor {
 public:
  // Reserves on `device` what the rank's `memory` charges for work and for the collective, and scratch out of
  // what it charges for captured programs. `programs`, all of the rank's, and `group` must live longer. Reasons
  // kOutOfMemory, also where that charge is too small; kDevice. `hung` is set where the device does not come to rest
  // after a failed run.
  static absl::StatusOr<std::unique_ptr<CudaExecutor>> Reserve(const Plan& plan, const RankMemory& memory,
                                                               const Device& device,
                                                               absl::Span<const runtime::RankProgram* const> programs,
                                                               runtime::Communicator& group,
                                                               const runtime::ExecutorOptions& options, HungFlag hung);

  ~CudaExecutor() override;

  // What runs need of weights and of the other ranks. Before the first run.
  void Bind(DeviceTables tables, std::unique_ptr<DeviceCollective> collective);

  absl::Status Run(const runtime::RankProgram& program, const runtime::LayerWeights& weights,
                   const runtime::StepInput& input, const runtime::StepOutput& output,
                   runtime::StepCounters* counters) override;
  bool drains() const override { return drains_; }
  uint64_t arena_bytes() const override;

 private:
  struct OnDevice;

  CudaExecutor(const Plan& plan, const Device& device, runtime::Communicator& group,
               const runtime::ExecutorOptions& options, HungFlag hung);

  // Whether the program runs as a graph: the same on all ranks, because the plan and the backend say it.
  bool IsCaptured(const runtime::RankProgram& program) const;

  // The rows that a step of `tokens` is enqueued for, of at most `most`.
  uint32_t RowsFor(const runtime::RankProgram& program, uint32_t tokens, uint32_t most) const;
  // The input of the largest step that is enqueued as this one is: of dense groups, each with as many tokens, which
  // `group_tokens` keeps.
  runtime::StepInput Widen(const runtime::RankProgram& program, const runtime::StepInput& input,
                           std::vector<uint32_t>* group_tokens) const;
  // What the caller brings and asks for, to the fixed places of the host and back.
  void Stage(const runtime::StepFrame& frame, const runtime::StepInput& input);
  void HandOut(const runtime::RankProgram& program, const runtime::StepOutput& output) const;
  // All of a run, for `frame`'s tokens at most.
  absl::Status Enqueue(const runtime::StepFrame& frame);
  absl::Status EnqueueStep(const runtime::StepFrame& frame, uint32_t step_number);
  absl::Status EnqueueCollective(const runtime::StepFrame& frame, uint32_t step_number);
  // Of a program that gathers.
  TokenExchange ExchangeFor(const runtime::StepFrame& frame);
  // The same, and what it leaves its failures in.
  absl::Status EnqueueAnew(const runtime::StepFrame& frame);
  // The same as a graph, which is captured the first time that it may be.
  absl::Status Replay(const runtime::StepFrame& frame);
  // Until all of it is done, or the deadline has passed or another rank has failed.
  absl::Status Wait(const runtime::StepFrame& frame);
  // The run has failed with `cause`, and what was enqueued may never be done: tells the other ranks, so that all end
  // their collectives at once, ends this one's, and waits a while for the device. Returns `cause`.
  absl::Status GiveUp(const absl::Status& cause);
  // Why this rank's step failed; OK where it did not.
  absl::Status CauseOf(const runtime::StepFrame& frame, const runtime::StepInput& input) const;

  const Plan& plan_;
  const Device device_;
  runtime::Communicator& group_;
  const runtime::ExecutorOptions options_;
  std::unique_ptr<OnDevice> on_device_;
  runtime::StepTrail trail_;
  bool drains_ = false;
  const HungFlag hung_;
};

}  // namespace meshseal::cuda

#endif  // MESHSEAL_RUNTIME_CUDA_CUDA_EXECUTOR_H_
