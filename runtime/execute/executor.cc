#include "runtime/execute/executor.h"

#include "absl/strings/str_cat.h"
#include "runtime/execute/step_frame.h"
#include "schema/reason.h"

namespace meshseal::runtime {

absl::Status Executor::RunStep(const StepFrame& frame, uint32_t step_number, Backend& backend) {
  const BoundStep& step = frame.program().steps()[step_number];
  const bool exact = frame.program().fixed_point().has_value() && HasExactForm(step.kind);
  return frame.Placed(step_number, exact ? RunExact(frame, step, backend) : RunFloat(frame, step, backend));
}

absl::Status Executor::RunFloat(const StepFrame& frame, const BoundStep& step, Backend& backend) {
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
      return backend.Route({shape, layer.router, weights.router, weights.router_bias, weights.selection_bias,
                            frame.Tokens(in), frame.ExpertIds(out), frame.ExpertWeights(out)});
    case StepKind::kRouteByTable:
      return backend.RouteByTable({shape, layer.router, weights.router, weights.router_bias, weights.token_table,
                                   frame.Tokens(in), frame.TokenIds(in2), frame.ExpertIds(out),
                                   frame.ExpertWeights(out)});
    case StepKind::kRouteGiven:
      return backend.RouteGiven(
          {shape, layer.experts, frame.RoutingAt(in), frame.ExpertIds(out), frame.ExpertWeights(out)});
    case StepKind::kScatter:
      return backend.Scatter({shape, frame.Owned(in2), frame.WeighsAt(WeightPoint::kInput), program.local_experts(),
                              program.tile_rows(), frame.Tokens(in), frame.Grouped(out, hidden), frame.SlotOfRow(out2),
                              frame.RowOfSlot(out2), frame.FirstRow(out2)});
    case StepKind::kGateUp:
      return backend.GateUp({shape, frame.Owned(in2), frame.WeighsAt(WeightPoint::kInput), layer.gate_up_basis, experts,
                             frame.Tokens(in), frame.Slots(out, shape.products()), frame.counters()});
    case StepKind::kGateUpGrouped:
      return backend.GateUpGrouped({shape, frame.GroupingAt(in2), layer.gate_up_basis, experts,
                                    frame.Grouped(in, hidden), frame.Grouped(out, shape.products()), frame.counters()});
    case StepKind::kUnscatter:
      return backend.Unscatter(
          {shape, frame.GroupingAt(in2), frame.Grouped(in, shape.products()), frame.Slots(out, shape.products())});
    case StepKind::kActivation:
      return backend.Activation({shape, frame.Owned(in2), frame.WeighsAt(WeightPoint::kActivation), layer.activation,
                                 frame.Slots(in, shape.products()), frame.Slots(out, columns)});
    case StepKind::kDown:
      return backend.Down({shape, frame.Owned(in2), program.at().tp == 0, layer.down_basis, experts,
                           frame.Slots(in, columns), frame.Slots(out, hidden), frame.counters()});
    case StepKind::kSharedGateUp:
      return backend.SharedGateUp(
          {shape, layer.gate_up_basis, weights.shared, frame.Tokens(in), frame.Tokens(out, shared_products)});
    case StepKind::kSharedActivation:
      return backend.SharedActivation({shape, program.shared_columns(), layer.shared_expert.activation,
                                       frame.Tokens(in, shared_products), frame.Tokens(out, shared)});
    case StepKind::kSharedDown:
      return backend.SharedDown(
          {shape, layer.down_basis, weights.shared, frame.Tokens(in, shared), frame.Tokens(in2), frame.Tokens(out)});
    case StepKind::kCombine:
    case StepKind::kCombineShared: {
      const CombineArgs combine = {shape, frame.Owned(in2), frame.WeighsAt(WeightPoint::kOutput),
                                   frame.Slots(in, hidden), frame.Tokens(out)};
      if (step.kind == StepKind::kCombine) return backend.Combine(combine);
      return backend.CombineShared({combine, frame.Tokens(in3)});
    }
    case StepKind::kResidual:
      return backend.Residual({frame.own_shape(), frame.OwnTokens(in), frame.OwnTokens(in2), frame.OwnTokens(out)});
    case StepKind::kCollective:
    case StepKind::kGather:
    case StepKind::kInvalid:
      break;
  }
  return Refuse(Reason::kBug, absl::StrCat("step ", step.mnemonic, " is not the backend's"));
}

absl::Status Executor::RunExact(const StepFrame& frame, const BoundStep& step, Backend& backend) {
  const RankProgram& program = frame.program();
  const LayerClass& layer = program.layer_class();
  const LayerWeights& weights = frame.weights();
  const StepShape& shape = frame.shape();
  const auto& [in, in2, in3] = step.inputs;
  const Buffer& out = step.outputs[0];
  const FixedPoint& fixed_point = *program.fixed_point();
  switch (step.kind) {
    case StepKind::kDown:
      return backend.DownExact({shape, frame.Owned(in2), frame.WeighsAt(WeightPoint::kOutput), program.at().tp == 0,
                                layer.down_basis, fixed_point, program.segment_ends(), weights.experts,
                                frame.Slots(in, shape.columns), frame.FixedSlots(out), frame.counters()});
    case StepKind::kSharedDown:
      return backend.SharedDownExact({shape, layer.down_basis, fixed_point, program.shared_segment_ends(),
                                      weights.shared, frame.Tokens(in, program.shared_columns()), frame.Tokens(in2),
                                      frame.FixedTokens(out)});
    case StepKind::kCombine:
    case StepKind::kCombineShared: {
      const CombineExactArgs combine = {shape, frame.Owned(in2), frame.FixedSlots(in), frame.FixedTokens(out)};
      if (step.kind == StepKind::kCombine) return backend.CombineExact(combine);
      return backend.CombineSharedExact({combine, frame.FixedTokens(in3)});
    }
    default:
      break;
  }
  return Refuse(Reason::kBug, absl::StrCat("step ", step.mnemonic, " has no exact form"));
}

}  // namespace meshseal::runtime
