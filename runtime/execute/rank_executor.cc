#include "runtime/execute/rank_executor.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "runtime/backend/basis.h"
#include "runtime/comm/agreement.h"
#include "runtime/comm/element_bytes.h"
#include "runtime/comm/status_lane.h"
#include "schema/mesh_view.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::runtime {
namespace {

constexpr int kPoison = 0xFF;  // a float32 of these bytes is a NaN

absl::Status CheckSize(const char* what, size_t found, uint64_t expected) {
  if (found == expected) return absl::OkStatus();
  return Refuse(Reason::kUsage, absl::StrCat(what, " has ", found, " elements, expected ", expected));
}

// What each dense group brings, where they bring different tokens.
absl::Status CheckGroups(const RankProgram& program, const StepInput& input) {
  if (!program.gathers()) return CheckSize("the row of dense groups' tokens", input.group_tokens.size(), 0);
  MESHSEAL_RETURN_IF_ERROR(
      CheckSize("the row of dense groups' tokens", input.group_tokens.size(), DenseGroups(program.degrees())));
  uint64_t sum = 0;
  for (const uint32_t tokens : input.group_tokens) {
    if (tokens > program.max_own_tokens()) {
      return Refuse(Reason::kLimit, absl::StrCat(tokens, " tokens of a dense group, the ", WordOf(program.phase()),
                                                 " program takes ", program.max_own_tokens()));
    }
    sum += tokens;
  }
  if (sum == input.tokens) return absl::OkStatus();
  return Refuse(Reason::kUsage, absl::StrCat("the dense groups bring ", sum, " tokens, expected ", input.tokens));
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
    shape_.gated = HasGate(program.layer_class().activation.kind);
    if (!program.gathers()) {
      own_ = {0, input.tokens};
      return;
    }
    uint64_t first = 0;
    for (const uint32_t tokens : input.group_tokens) {
      groups_.push_back({first, tokens});
      first += tokens;
    }
    own_ = groups_[DenseGroupOf(program.degrees(), program.at())];
  }

  const RankProgram& program() const { return program_; }
  const LayerWeights& weights() const { return weights_; }
  const StepShape& shape() const { return shape_; }
  StepShape own_shape() const {
    StepShape shape = shape_;
    shape.tokens = static_cast<uint32_t>(own_.count);
    return shape;
  }
  uint32_t layer() const { return layer_; }
  const StepOutput& output() const { return output_; }
  // The rows that this rank brings and gets back, of all T.
  const Piece& own() const { return own_; }
  // For each member of the expert group, the elements that are its own of T rows of `width`.
  std::vector<Piece> MemberPieces(uint64_t width) const {
    std::vector<Piece> pieces;
    for (const Piece& rows : groups_) {
      pieces.insert(pieces.end(), program_.degrees().dense_tp, {rows.first * width, rows.count * width});
    }
    return pieces;
  }
  StepCounters* counters() const { return counters_; }

  // Whether the routing weight is multiplied in at `point`.
  bool WeighsAt(WeightPoint point) const { return program_.layer_class().router.weight_applied == point; }

  absl::Span<float> Tokens(const Buffer& place) const { return Tokens(place, shape_.hidden); }
  absl::Span<float> Tokens(const Buffer& place, uint64_t width) const { return Rows(place, shape_.tokens, width); }
  absl::Span<float> OwnTokens(const Buffer& place) const { return Rows(place, own_.count, shape_.hidden); }
  absl::Span<int32_t> TokenIds(const Buffer& place) const { return At<int32_t>(place, 0, shape_.tokens); }
  absl::Span<float> Slots(const Buffer& place, uint64_t width) const { return Rows(place, shape_.slots(), width); }
  // The same of an exact sum.
  absl::Span<int64_t> FixedTokens(const Buffer& place) const {
    return At<int64_t>(place, 0, uint64_t{shape_.tokens} * shape_.hidden);
  }
  absl::Span<int64_t> FixedSlots(const Buffer& place) const {
    return At<int64_t>(place, 0, shape_.slots() * shape_.hidden);
  }
  absl::Span<float> Grouped(const Buffer& place, uint64_t width) const {
    return Rows(place, program_.grouped_rows(), width);
  }

  // A routing place: the ids of all slots, then their weights.
  absl::Span<int32_t> ExpertIds(const Buffer& place) const { return At<int32_t>(place, 0, shape_.slots()); }
  absl::Span<float> ExpertWeights(const Buffer& place) const {
    return At<float>(place, shape_.slots(), shape_.slots());
  }
  Routing RoutingAt(const Buffer& place) const { return {ExpertIds(place), ExpertWeights(place)}; }
  OwnedSlots Owned(const Buffer& place) const {
    return {RoutingAt(place), program_.expert_places(), shape_.first_token, shape_.top_k};
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
    return Refuse(
        ReasonOf(failure).value_or(Reason::kBug),
        absl::StrCat("layer ", layer_, ", step ", step_number, " ", program_.steps()[step_number].mnemonic,
                     program_.gathers() ? " (tokens counted over all dense groups): " : ": ", failure.message()));
  }

  // What the caller brought, to the places where the program reads it.
  void PlaceInputs(const StepInput& input) const {
    std::copy(input.hidden.begin(), input.hidden.end(), OwnTokens(program_.layer_input()).begin());
    const std::array<Buffer, 3>& read = program_.route().inputs;
    if (program_.route().kind == StepKind::kRouteByTable) {
      std::copy(input.token_ids.begin(), input.token_ids.end(), TokenIds(read[1]).begin());
    }
    if (program_.route().kind == StepKind::kRouteGiven) {
      std::copy(input.routing.experts.begin(), input.routing.experts.end(), ExpertIds(read[0]).begin());
      std::copy(input.routing.weights.begin(), input.routing.weights.end(), ExpertWeights(read[0]).begin());
    }
  }

  // Where route left its result.
  const Buffer& RoutingPlace() const { return program_.route().outputs.front(); }

 private:
  template <class T>
  absl::Span<T> At(const Buffer& place, uint64_t first, uint64_t count) const {
    static_assert(sizeof(T) == 4 || std::is_same_v<T, int64_t>);  // as values are charged
    return absl::MakeSpan(reinterpret_cast<T*>(arena_.data() + place.offset) + first, count);
  }
  absl::Span<float> Rows(const Buffer& place, uint64_t rows, uint64_t width) const {
    return At<float>(place, 0, rows * width);
  }

  const RankProgram& program_;
  const LayerWeights& weights_;
  const StepOutput& output_;
  StepShape shape_;
  std::vector<Piece> groups_;  // rows of each dense group, where they are gathered
  Piece own_;
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
  MESHSEAL_RETURN_IF_ERROR(CheckGroups(program, input));
  StepCounters launched;
  const Frame frame(program, weights, input, output, arena_.bytes(), &launched);
  const uint64_t elements = frame.own().count * program.hidden();
  MESHSEAL_RETURN_IF_ERROR(CheckSize("the input", input.hidden.size(), elements));
  const uint64_t ids = program.route().kind == StepKind::kRouteByTable ? input.tokens : 0;
  MESHSEAL_RETURN_IF_ERROR(CheckSize("the row of token ids", input.token_ids.size(), ids));
  const uint64_t given = program.route().kind == StepKind::kRouteGiven ? frame.shape().slots() : 0;
  for (const size_t size : {input.routing.experts.size(), input.routing.weights.size()}) {
    MESHSEAL_RETURN_IF_ERROR(CheckSize("the given routing", size, given));
  }
  if (!output.hidden.empty()) MESHSEAL_RETURN_IF_ERROR(CheckSize("the output", output.hidden.size(), elements));
  for (const size_t size : {output.expert_ids.size(), output.expert_weights.size()}) {
    if (size != 0) MESHSEAL_RETURN_IF_ERROR(CheckSize("the routing", size, frame.shape().slots()));
  }

  if (options_.poison) std::memset(arena_.bytes().data(), kPoison, program.arena_bytes());
  frame.PlaceInputs(input);

  absl::Status status;
  for (uint32_t i = 0; i < program.steps().size(); ++i) {
    const BoundStep& step = program.steps()[i];
    if (step.kind == StepKind::kCollective) {
      status = RunCollective(frame, i, status);
      if (!status.ok()) break;
    } else if (step.kind == StepKind::kGather) {
      trail_.Enter(frame.layer(), i, step.mnemonic);
      status = frame.Placed(i, RunGather(frame, step));
      if (!status.ok()) break;  // of all ranks, or the world's messages are over
    } else if (status.ok()) {
      const bool exact = program.fixed_point().has_value() && HasExactForm(step.kind);
      status = frame.Placed(i, exact ? RunExactStep(frame, step) : RunBackendStep(frame, step));
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

absl::Status RankExecutor::RunBackendStep(const Frame& frame, const BoundStep& step) {
  const RankProgram& program = frame.program();
  const LayerClass& layer = program.layer_class();
  const LayerWeights& weights = frame.weights();
  const StepShape& shape = frame.shape();
  const absl::Span<const ExpertWeights> experts = weights.experts;
  const auto& [in, in2, in3] = step.inputs;
  const Buffer& out = step.outputs[0];
  const Buffer& out2 = step.outputs[1];
  const uint64_t hidden = shape.hidden;
  const uint64_t columns = shape.columns;
  const uint64_t shared = program.shared_columns();
  const uint64_t shared_products = shared * (HasGate(layer.shared_expert.activation.kind) ? 2 : 1);
  switch (step.kind) {
    case StepKind::kRoute:
      return backend_->Route({shape, layer.router, weights.router, weights.router_bias, weights.selection_bias,
                              frame.Tokens(in), frame.ExpertIds(out), frame.ExpertWeights(out)});
    case StepKind::kRouteByTable:
      return backend_->RouteByTable({shape, layer.router, weights.router, weights.router_bias, weights.token_table,
                                     frame.Tokens(in), frame.TokenIds(in2), frame.ExpertIds(out),
                                     frame.ExpertWeights(out)});
    case StepKind::kRouteGiven:
      return backend_->RouteGiven(
          {shape, layer.experts, frame.RoutingAt(in), frame.ExpertIds(out), frame.ExpertWeights(out)});
    case StepKind::kScatter:
      return backend_->Scatter({shape, frame.Owned(in2), frame.WeighsAt(WeightPoint::kInput), program.local_experts(),
                                program.tile_rows(), frame.Tokens(in), frame.Grouped(out, hidden),
                                frame.SlotOfRow(out2), frame.RowOfSlot(out2), frame.FirstRow(out2)});
    case StepKind::kGateUp:
      return backend_->GateUp({shape, frame.Owned(in2), frame.WeighsAt(WeightPoint::kInput), layer.gate_up_basis,
                               experts, frame.Tokens(in), frame.Slots(out, shape.products()), frame.counters()});
    case StepKind::kGateUpGrouped:
      return backend_->GateUpGrouped({shape, frame.GroupingAt(in2), layer.gate_up_basis, experts,
                                      frame.Grouped(in, hidden), frame.Grouped(out, shape.products()),
                                      frame.counters()});
    case StepKind::kUnscatter:
      return backend_->Unscatter(
          {shape, frame.GroupingAt(in2), frame.Grouped(in, shape.products()), frame.Slots(out, shape.products())});
    case StepKind::kActivation:
      return backend_->Activation({shape, frame.Owned(in2), frame.WeighsAt(WeightPoint::kActivation), layer.activation,
                                   frame.Slots(in, shape.products()), frame.Slots(out, columns)});
    case StepKind::kDown:
      return backend_->Down({shape, frame.Owned(in2), program.at().tp == 0, layer.down_basis, experts,
                             frame.Slots(in, columns), frame.Slots(out, hidden), frame.counters()});
    case StepKind::kSharedGateUp:
      return backend_->SharedGateUp(
          {shape, layer.gate_up_basis, weights.shared, frame.Tokens(in), frame.Tokens(out, shared_products)});
    case StepKind::kSharedActivation:
      return backend_->SharedActivation({shape, program.shared_columns(), layer.shared_expert.activation,
                                         frame.Tokens(in, shared_products), frame.Tokens(out, shared)});
    case StepKind::kSharedDown:
      return backend_->SharedDown(
          {shape, layer.down_basis, weights.shared, frame.Tokens(in, shared), frame.Tokens(in2), frame.Tokens(out)});
    case StepKind::kCombine:
    case StepKind::kCombineShared: {
      const CombineArgs combine = {shape, frame.Owned(in2), frame.WeighsAt(WeightPoint::kOutput),
                                   frame.Slots(in, hidden), frame.Tokens(out)};
      if (step.kind == StepKind::kCombine) return backend_->Combine(combine);
      return backend_->CombineShared({combine, frame.Tokens(in3)});
    }
    case StepKind::kResidual:
      return backend_->Residual({frame.own_shape(), frame.OwnTokens(in), frame.OwnTokens(in2), frame.OwnTokens(out)});
    case StepKind::kCollective:
    case StepKind::kGather:
    case StepKind::kInvalid:
      break;
  }
  return Refuse(Reason::kBug, absl::StrCat("step ", step.mnemonic, " is not the backend's"));
}

absl::Status RankExecutor::RunGather(const Frame& frame, const BoundStep& step) {
  const absl::Span<const float> own = frame.OwnTokens(step.inputs.front());
  const absl::Span<float> all = frame.Tokens(step.outputs.front());
  return group_->AllGather(BytesOf(own), frame.MemberPieces(frame.shape().hidden * sizeof(float)), BytesIn(all));
}

absl::Status RankExecutor::RunExactStep(const Frame& frame, const BoundStep& step) {
  const RankProgram& program = frame.program();
  const LayerClass& layer = program.layer_class();
  const LayerWeights& weights = frame.weights();
  const StepShape& shape = frame.shape();
  const auto& [in, in2, in3] = step.inputs;
  const Buffer& out = step.outputs[0];
  const FixedPoint& fixed_point = *program.fixed_point();
  switch (step.kind) {
    case StepKind::kDown:
      return backend_->DownExact({shape, frame.Owned(in2), frame.WeighsAt(WeightPoint::kOutput), program.at().tp == 0,
                                  layer.down_basis, fixed_point, program.segment_ends(), weights.experts,
                                  frame.Slots(in, shape.columns), frame.FixedSlots(out), frame.counters()});
    case StepKind::kSharedDown:
      return backend_->SharedDownExact({shape, layer.down_basis, fixed_point, program.shared_segment_ends(),
                                        weights.shared, frame.Tokens(in, program.shared_columns()), frame.Tokens(in2),
                                        frame.FixedTokens(out)});
    case StepKind::kCombine:
    case StepKind::kCombineShared: {
      const CombineExactArgs combine = {shape, frame.Owned(in2), frame.FixedSlots(in), frame.FixedTokens(out)};
      if (step.kind == StepKind::kCombine) return backend_->CombineExact(combine);
      return backend_->CombineSharedExact({combine, frame.FixedTokens(in3)});
    }
    default:
      break;
  }
  return Refuse(Reason::kBug, absl::StrCat("step ", step.mnemonic, " has no exact form"));
}

absl::Status RankExecutor::Reduce(const Frame& frame, const BoundStep& step, const StatusLane& lane, StatusLane* sum) {
  const Buffer& in = step.inputs.front();
  const absl::Span<float> out = frame.OwnTokens(step.outputs.front());
  const bool gathers = frame.program().gathers();
  const uint64_t hidden = frame.shape().hidden;
  const std::optional<FixedPoint>& fixed_point = frame.program().fixed_point();
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

absl::Status RankExecutor::RunCollective(const Frame& frame, uint32_t step_number, const absl::Status& cause) {
  const BoundStep& step = frame.program().steps()[step_number];
  const StepShape& shape = frame.shape();
  trail_.Enter(frame.layer(), step_number, step.mnemonic);

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
  }

  if (options_.drain != nullptr && options_.drain->load(std::memory_order_relaxed)) lane.drain = 1;

  StatusLane sum;
  const absl::Status reduced = Reduce(frame, step, lane, &sum);
  if (!cause.ok() && !reduced.ok()) return cause;
  if (ReasonOf(reduced) == Reason::kDeadline) {
    return frame.Placed(
        step_number, Refuse(Reason::kDeadline, absl::StrCat(reduced.message(), "; this rank entered ", trail_.Text())));
  }
  if (!reduced.ok()) return frame.Placed(step_number, reduced);
  drains_ = sum.drain > 0;
  if (sum.errors > 0) {
    const absl::Status agreed = Agree(*group_, cause);
    return cause.ok() ? frame.Placed(step_number, agreed) : agreed;
  }
  const uint64_t expected = shape.slots() * frame.program().tensor_degree();
  return frame.Placed(step_number, CheckLane(sum, group_->size(), expected));
}

}  // namespace meshseal::runtime
