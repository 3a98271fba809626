// Executes a rank's programs, step by step, in one work arena.
//
// A rank whose step fails does not leave: it contributes zeros and an error to the program's collective,
// where all ranks learn of it and stop at the same step. Nothing of a step's output is handed out before its
// status lane was read.
#ifndef MESHSEAL_RUNTIME_EXECUTE_RANK_EXECUTOR_H_
#define MESHSEAL_RUNTIME_EXECUTE_RANK_EXECUTOR_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/backend/backend.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/status_lane.h"
#include "runtime/execute/executor.h"
#include "runtime/execute/step_frame.h"
#include "runtime/execute/step_trail.h"
#include "runtime/memory/arena.h"
#include "runtime/program/rank_program.h"
#include "runtime/weights/rank_weights.h"

namespace meshseal::runtime {

// `backend` and `group`, the rank's expert group, must live longer.
class RankExecutor : public Executor {
 public:
  // Reserves `arena_bytes`, at least those of every program to be run. Reason kOutOfMemory.
  static absl::StatusOr<std::unique_ptr<RankExecutor>> Reserve(uint64_t arena_bytes, Backend& backend,
                                                               Communicator& group, const ExecutorOptions& options);

  absl::Status Run(const RankProgram& program, const LayerWeights& weights, const StepInput& input,
                   const StepOutput& output, StepCounters* counters) override;
  bool drains() const override { return drains_; }
  uint64_t arena_bytes() const override { return arena_.bytes().size(); }

 private:
  RankExecutor(Arena arena, Backend& backend, Communicator& group, const ExecutorOptions& options)
      : arena_(std::move(arena)), backend_(&backend), group_(&group), options_(options) {}

  absl::Status RunGather(const StepFrame& frame, const BoundStep& step);
  // The sum over the group, in float32 or exact; of a rank whose lane has an error, zeros are its addend.
  absl::Status Reduce(const StepFrame& frame, const BoundStep& step, const StatusLane& lane, StatusLane* sum);
  // `cause` is why this rank has no addend; returns the verdict that all ranks share.
  absl::Status RunCollective(const StepFrame& frame, const StepOutput& output, uint32_t step_number,
                             const absl::Status& cause);

  const Arena arena_;
  Backend* const backend_;
  Communicator* const group_;
  const ExecutorOptions options_;
  StepTrail trail_;
  bool drains_ = false;
};

}  // namespace meshseal::runtime

#endif  // MESHSEAL_RUNTIME_EXECUTE_RANK_EXECUTOR_H_
