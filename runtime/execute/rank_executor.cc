#include "runtime/execute/rank_executor.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "runtime/backend/basis.h"
#include "runtime/comm/agreement.h"
#include "runtime/comm/element_bytes.h"
#include "runtime/comm/status_lane.h"
#include "runtime/execute/check_run.h"
#include "runtime/execute/collective_verdict.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::runtime {
namespace {

// What the caller brought, to the places where the program reads it.
void PlaceInputs(const StepInput& input, const StepFrame& frame) {
  const RankProgram& program = frame.program();
  std::copy(input.hidden.begin(), input.hidden.end(), frame.OwnTokens(program.layer_input()).begin());
  const BoundStep& route = program.route();
  if (route.kind == StepKind::kRouteByTable) {
    std::copy(input.token_ids.begin(), input.token_ids.end(), frame.TokenIds(route.inputs[1]).begin());
  }
  if (route.kind == StepKind::kRouteGiven) {
    const Buffer& given = route.inputs[0];
    std::copy(input.routing.experts.begin(), input.routing.experts.end(), frame.ExpertIds(given).begin());
    std::copy(input.routing.weights.begin(), input.routing.weights.end(), frame.ExpertWeights(given).begin());
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankExecutor>> RankExecutor::Reserve(uint64_t arena_bytes, Backend& backend,
                                                                    Communicator& group,
                                                                    const ExecutorOptions& options) {
  MESHSEAL_ASSIGN_OR_RETURN(Arena arena, Arena::Reserve(arena_bytes, "the work arena"));
  return std::unique_ptr<RankExecutor>(new RankExecutor(std::move(arena), backend, group, options));
}

absl::Status RankExecutor::Run(const RankProgram& program, const LayerWeights& weights, const StepInput& input,
                               const StepOutput& output, StepCounters* counters) {
  MESHSEAL_RETURN_IF_ERROR(CheckRun(program, arena_.bytes().size(), input, output));
  StepCounters launched;
  const StepFrame frame(program, weights, input, arena_.bytes(), &launched);

  if (options_.poison) std::memset(arena_.bytes().data(), kPoison, program.arena_bytes());
  PlaceInputs(input, frame);

  absl::Status status;
  for (uint32_t i = 0; i < program.steps().size(); ++i) {
    const BoundStep& step = program.steps()[i];
    if (step.kind == StepKind::kCollective) {
      status = RunCollective(frame, output, i, status);
      if (!status.ok()) break;
    } else if (step.kind == StepKind::kGather) {
      trail_.Enter(frame.layer(), i, step.mnemonic);
      status = frame.Placed(i, RunGather(frame, step));
      if (!status.ok()) break;  // of all ranks, or the world's messages are over
    } else if (status.ok()) {
      status = RunStep(frame, i, *backend_);
    }
  }
  counters->gate_up_slots += launched.gate_up_slots;
  counters->down_slots += launched.down_slots;
  MESHSEAL_RETURN_IF_ERROR(status);

  if (output.hidden.empty()) return absl::OkStatus();
  const absl::Span<const float> result = frame.OwnTokens(program.layer_output());
  std::copy(result.begin(), result.end(), output.hidden.begin());
  ToBasis(program.output(), output.hidden);
  return absl::OkStatus();
}

absl::Status RankExecutor::RunGather(const StepFrame& frame, const BoundStep& step) {
  const absl::Span<const float> own = frame.OwnTokens(step.inputs.front());
  const absl::Span<float> all = frame.Tokens(step.outputs.front());
  return group_->AllGather(BytesOf(own), frame.MemberPieces(frame.shape().hidden * sizeof(float)), BytesIn(all));
}

absl::Status RankExecutor::Reduce(const StepFrame& frame, const BoundStep& step, const StatusLane& lane,
                                  StatusLane* sum) {
  const Buffer& in = step.inputs.front();
  const absl::Span<float> out = frame.OwnTokens(step.outputs.front());
  const bool gathers = frame.program().gathers();
  const uint64_t hidden = frame.shape().hidden;
  const std::optional<FixedPoint>& fixed_point = frame.program().fixed_point();
  group_->SetReduceAlgorithm(frame.program().reduce_algorithm());
  if (!fixed_point.has_value()) {
    const absl::Span<float> addend = frame.Tokens(in);
    if (lane.errors > 0) std::fill(addend.begin(), addend.end(), 0.0f);
    return gathers ? group_->ReduceScatterSum(addend, frame.MemberPieces(hidden), lane, out, sum)
                   : group_->AllReduceSum(addend, lane, out, sum);
  }
  const absl::Span<int64_t> fixed = frame.FixedTokens(in);
  if (lane.errors > 0) std::fill(fixed.begin(), fixed.end(), 0);
  const absl::Span<int64_t> own = fixed.subspan(frame.own().first * hidden, frame.own().count * hidden);
  MESHSEAL_RETURN_IF_ERROR(gathers ? group_->ReduceScatterSum(fixed, frame.MemberPieces(hidden), lane, own, sum)
                                   : group_->AllReduceSum(fixed, lane, fixed, sum));
  std::transform(own.begin(), own.end(), out.begin(), [&](int64_t value) { return fixed_point->ToFloat(value); });
  return absl::OkStatus();
}

absl::Status RankExecutor::RunCollective(const StepFrame& frame, const StepOutput& output, uint32_t step_number,
                                         const absl::Status& cause) {
  const BoundStep& step = frame.program().steps()[step_number];
  const StepShape& shape = frame.shape();
  trail_.Enter(frame.layer(), step_number, step.mnemonic);

  const absl::Span<const int32_t> ids = frame.ExpertIds(frame.RoutingPlace());
  const absl::Span<const float> weights = frame.ExpertWeights(frame.RoutingPlace());
  StatusLane lane;
  if (cause.ok()) {
    lane = LaneOf(frame.counters()->down_slots, ids, weights);
    // The plan lets later values take the routing's place.
    if (!output.expert_ids.empty()) std::copy(ids.begin(), ids.end(), output.expert_ids.begin());
    if (!output.expert_weights.empty()) std::copy(weights.begin(), weights.end(), output.expert_weights.begin());
  } else {
    lane.errors = 1;
  }

  if (options_.drain != nullptr && options_.drain->load(std::memory_order_relaxed)) lane.drain = 1;

  StatusLane sum;
  const absl::Status reduced = Reduce(frame, step, lane, &sum);
  drains_ = reduced.ok() && sum.drain > 0;
  return CollectiveVerdict(frame, step_number, shape.slots(), cause, reduced, sum, trail_, *group_);
}

}  // namespace meshseal::runtime
