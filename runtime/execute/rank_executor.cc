#include "runtime/execute/rank_executor.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "runtime/comm/agreement.h"
#include "runtime/comm/status_lane.h"
#include "schema/float_bits.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::runtime {
namespace {

constexpr int kPoison = 0xFF;  // a float32 of these bytes is a NaN

absl::Status CheckSize(const char* what, size_t found, uint64_t expected) {
  if (found == expected) return absl::OkStatus();
  return Refuse(Reason::kUsage, absl::StrCat(what, " has ", found, " elements, expected ", expected));
}

}  // namespace

// One run: the program's places as typed views of the arena. The seal proved that every place holds its value
// for max_tokens tokens.
class RankExecutor::Frame {
 public:
  Frame(const RankProgram& program, const LayerWeights& weights, const StepInput& input, const StepOutput& output,
        absl::Span<std::byte> arena, StepCounters* counters)
      : program_(program), weights_(weights), output_(output), layer_(input.layer), arena_(arena), counters_(counters) {
    shape_.first_token = input.first_token;
    shape_.tokens = input.tokens;
    shape_.top_k = program.layer_class().top_k;
    shape_.hidden = program.hidden();
    shape_.columns = program.columns().size();
  }

  const RankProgram& program() const { return program_; }
  const LayerWeights& weights() const { return weights_; }
  const StepShape& shape() const { return shape_; }
  uint32_t layer() const { return layer_; }
  const StepOutput& output() const { return output_; }
  StepCounters* counters() const { return counters_; }

  absl::Span<float> Tokens(const Buffer& place) const { return Rows(place, shape_.tokens, shape_.hidden); }
  absl::Span<float> Slots(const Buffer& place, uint64_t width) const { return Rows(place, shape_.slots(), width); }
  absl::Span<float> Grouped(const Buffer& place, uint64_t width) const {
    return Rows(place, program_.grouped_rows(), width);
  }

  // A routing place: the ids of all slots, then their weights.
  absl::Span<int32_t> ExpertIds(const Buffer& place) const { return At<int32_t>(place, 0, shape_.slots()); }
  absl::Span<float> ExpertWeights(const Buffer& place) const {
    return At<float>(place, shape_.slots(), shape_.slots());
  }
  OwnedSlots Owned(const Buffer& place) const {
    return {{ExpertIds(place), ExpertWeights(place)}, program_.local_of_expert()};
  }

  // A grouping place: slot of each row, row of each slot, first row of each local expert and the end.
  absl::Span<int32_t> SlotOfRow(const Buffer& place) const { return At<int32_t>(place, 0, program_.grouped_rows()); }
  absl::Span<int32_t> RowOfSlot(const Buffer& place) const {
    return At<int32_t>(place, program_.grouped_rows(), shape_.slots());
  }
  absl::Span<int32_t> FirstRow(const Buffer& place) const {
    return At<int32_t>(place, program_.grouped_rows() + shape_.slots(), uint64_t{program_.local_experts()} + 1);
  }
  Grouping GroupingAt(const Buffer& place) const { return {SlotOfRow(place), RowOfSlot(place), FirstRow(place)}; }

  // `failure` with the place it happened at in front.
  absl::Status Placed(uint32_t step_number, const absl::Status& failure) const {
    if (failure.ok()) return failure;
    return Refuse(ReasonOf(failure).value_or(Reason::kBug),
                  absl::StrCat("layer ", layer_, ", step ", step_number, " ", program_.steps()[step_number].mnemonic,
                               ": ", failure.message()));
  }

  // Where route left its result.
  const Buffer& RoutingPlace() const { return program_.steps().front().outputs.front(); }

 private:
  template <class T>
  absl::Span<T> At(const Buffer& place, uint64_t first, uint64_t count) const {
    static_assert(sizeof(T) == 4);
    return absl::MakeSpan(reinterpret_cast<T*>(arena_.data() + place.offset) + first, count);
  }
  absl::Span<float> Rows(const Buffer& place, uint64_t rows, uint64_t width) const {
    return At<float>(place, 0, rows * width);
  }

  const RankProgram& program_;
  const LayerWeights& weights_;
  const StepOutput& output_;
  StepShape shape_;
  uint32_t layer_;
  absl::Span<std::byte> arena_;
  StepCounters* counters_;
};

absl::StatusOr<RankExecutor> RankExecutor::Reserve(uint64_t arena_bytes, Backend& backend, Communicator& group,
                                                   const Options& options) {
  MESHSEAL_ASSIGN_OR_RETURN(Arena arena, Arena::Reserve(arena_bytes, "the work arena"));
  return RankExecutor(std::move(arena), backend, group, options);
}

absl::Status RankExecutor::Run(const RankProgram& program, const LayerWeights& weights, const StepInput& input,
                               const StepOutput& output, StepCounters* counters) {
  if (input.tokens > program.max_tokens() || program.arena_bytes() > arena_.bytes().size()) {
    return Refuse(Reason::kLimit, absl::StrCat(input.tokens, " tokens, the ", WordOf(program.phase()),
                                               " program takes ", program.max_tokens(), " in ", program.arena_bytes(),
                                               " of ", arena_.bytes().size(), " bytes"));
  }
  StepCounters launched;
  const Frame frame(program, weights, input, output, arena_.bytes(), &launched);
  const uint64_t elements = uint64_t{input.tokens} * program.hidden();
  MESHSEAL_RETURN_IF_ERROR(CheckSize("the input", input.hidden.size(), elements));
  if (!output.hidden.empty()) MESHSEAL_RETURN_IF_ERROR(CheckSize("the output", output.hidden.size(), elements));
  for (const size_t size : {output.expert_ids.size(), output.expert_weights.size()}) {
    if (size != 0) MESHSEAL_RETURN_IF_ERROR(CheckSize("the routing", size, frame.shape().slots()));
  }

  if (options_.poison) std::memset(arena_.bytes().data(), kPoison, program.arena_bytes());
  std::copy(input.hidden.begin(), input.hidden.end(), frame.Tokens(program.layer_input()).begin());

  absl::Status status;
  for (uint32_t i = 0; i < program.steps().size(); ++i) {
    const BoundStep& step = program.steps()[i];
    if (step.kind == StepKind::kCollective) {
      status = RunCollective(frame, i, status);
      if (!status.ok()) break;
    } else if (status.ok()) {
      status = frame.Placed(i, RunBackendStep(frame, step));
    }
  }
  counters->gate_up_slots += launched.gate_up_slots;
  counters->down_slots += launched.down_slots;
  MESHSEAL_RETURN_IF_ERROR(status);

  if (output.hidden.empty()) return absl::OkStatus();
  const absl::Span<const float> result = frame.Tokens(program.layer_output());
  std::copy(result.begin(), result.end(), output.hidden.begin());
  if (program.output() == Basis::kBf16) {
    for (float& value : output.hidden) value = Bf16ToFloat(FloatToBf16(value));
  }
  return absl::OkStatus();
}

absl::Status RankExecutor::RunBackendStep(const Frame& frame, const BoundStep& step) {
  const LayerClass& layer = frame.program().layer_class();
  const StepShape& shape = frame.shape();
  const absl::Span<const ExpertWeights> experts = frame.weights().experts;
  const auto& [in, in2] = step.inputs;
  const auto& [out, out2] = step.outputs;
  const uint64_t hidden = shape.hidden;
  const uint64_t columns = shape.columns;
  switch (step.kind) {
    case StepKind::kRoute:
      return backend_->Route({shape, layer.router, frame.weights().router, frame.weights().router_bias,
                              frame.weights().selection_bias, frame.Tokens(in), frame.ExpertIds(out),
                              frame.ExpertWeights(out)});
    case StepKind::kScatter:
      return backend_->Scatter({shape, frame.Owned(in2), frame.program().local_experts(), frame.program().tile_rows(),
                                frame.Tokens(in), frame.Grouped(out, hidden), frame.SlotOfRow(out2),
                                frame.RowOfSlot(out2), frame.FirstRow(out2)});
    case StepKind::kGateUp:
      return backend_->GateUp({shape, frame.Owned(in2), layer.gate_up_basis, experts, frame.Tokens(in),
                               frame.Slots(out, 2 * columns), frame.counters()});
    case StepKind::kGateUpGrouped:
      return backend_->GateUpGrouped({shape, frame.GroupingAt(in2), layer.gate_up_basis, experts,
                                      frame.Grouped(in, hidden), frame.Grouped(out, 2 * columns), frame.counters()});
    case StepKind::kUnscatter:
      return backend_->Unscatter(
          {shape, frame.GroupingAt(in2), frame.Grouped(in, 2 * columns), frame.Slots(out, 2 * columns)});
    case StepKind::kActivation:
      return backend_->Activation(
          {shape, frame.Owned(in2), layer.activation, frame.Slots(in, 2 * columns), frame.Slots(out, columns)});
    case StepKind::kDown:
      return backend_->Down({shape, frame.Owned(in2), layer.down_basis, experts, frame.Slots(in, columns),
                             frame.Slots(out, hidden), frame.counters()});
    case StepKind::kCombine:
      return backend_->Combine({shape, frame.Owned(in2), frame.Slots(in, hidden), frame.Tokens(out)});
    case StepKind::kResidual:
      return backend_->Residual({shape, frame.Tokens(in), frame.Tokens(in2), frame.Tokens(out)});
    case StepKind::kCollective:
    case StepKind::kGather:
    case StepKind::kRouteByTable:
    case StepKind::kRouteGiven:
    case StepKind::kSharedGateUp:
    case StepKind::kSharedActivation:
    case StepKind::kSharedDown:
    case StepKind::kCombineShared:
    case StepKind::kInvalid:
      break;
  }
  return Refuse(Reason::kBug, absl::StrCat("step ", step.mnemonic, " is not the backend's"));
}

absl::Status RankExecutor::RunCollective(const Frame& frame, uint32_t step_number, const absl::Status& cause) {
  const BoundStep& step = frame.program().steps()[step_number];
  const StepShape& shape = frame.shape();
  trail_.Enter(frame.layer(), step_number, step.mnemonic);

  const absl::Span<float> addend = frame.Tokens(step.inputs.front());
  const absl::Span<const int32_t> ids = frame.ExpertIds(frame.RoutingPlace());
  const absl::Span<const float> weights = frame.ExpertWeights(frame.RoutingPlace());
  StatusLane lane;
  if (cause.ok()) {
    lane = LaneOf(frame.counters()->down_slots,
                  absl::string_view(reinterpret_cast<const char*>(ids.data()), shape.slots() * 8));
    // The plan lets later values take the routing's place.
    if (!frame.output().expert_ids.empty()) std::copy(ids.begin(), ids.end(), frame.output().expert_ids.begin());
    if (!frame.output().expert_weights.empty()) {
      std::copy(weights.begin(), weights.end(), frame.output().expert_weights.begin());
    }
  } else {
    lane.errors = 1;
    std::fill(addend.begin(), addend.end(), 0.0f);
  }

  StatusLane sum;
  const absl::Status reduced = group_->AllReduceSum(addend, lane, frame.Tokens(step.outputs.front()), &sum);
  if (!cause.ok() && !reduced.ok()) return cause;
  if (ReasonOf(reduced) == Reason::kDeadline) {
    return frame.Placed(
        step_number, Refuse(Reason::kDeadline, absl::StrCat(reduced.message(), "; this rank entered ", trail_.Text())));
  }
  if (!reduced.ok()) return frame.Placed(step_number, reduced);
  if (sum.errors > 0) {
    const absl::Status agreed = Agree(*group_, cause);
    return cause.ok() ? frame.Placed(step_number, agreed) : agreed;
  }
  const uint64_t expected = shape.slots() * frame.program().tensor_degree();
  return frame.Placed(step_number, CheckLane(sum, group_->size(), expected));
}

}  // namespace meshseal::runtime
