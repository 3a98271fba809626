#include "runtime/cuda/cuda_backend.h"

#include <optional>
#include <utility>

#include "runtime/cuda/cuda_status.h"
#include "runtime/cuda/kernels/activation.h"
#include "runtime/cuda/kernels/combine.h"
#include "runtime/cuda/kernels/device_matrix.h"
#include "runtime/cuda/kernels/down.h"
#include "runtime/cuda/kernels/down_exact.h"
#include "runtime/cuda/kernels/gate_up.h"
#include "runtime/cuda/kernels/gate_up_activation.h"
#include "runtime/cuda/kernels/gate_up_grouped.h"
#include "runtime/cuda/kernels/residual.h"
#include "runtime/cuda/kernels/route.h"
#include "runtime/cuda/kernels/router_logits.h"
#include "runtime/cuda/kernels/scatter.h"
#include "runtime/cuda/kernels/shared_down.h"
#include "runtime/cuda/kernels/shared_down_exact.h"
#include "runtime/cuda/kernels/shared_gate.h"
#include "runtime/cuda/kernels/shared_gate_up.h"
#include "runtime/cuda/kernels/tile_pieces.h"
#include "runtime/cuda/stream.h"
#include "schema/status_macros.h"

namespace meshseal::cuda {
namespace {

// A matrix that lies on the device already: its views say where.
DeviceMatrix InPlace(const runtime::WeightMatrix& matrix) { return OnDevice(matrix, nullptr, nullptr); }

// What tensor cores take of a basis.
std::optional<HalfType> HalfOf(Basis basis) {
  if (basis == Basis::kBf16) return HalfType::kBf16;
  if (basis == Basis::kF16) return HalfType::kF16;
  return std::nullopt;
}

}  // namespace

absl::Span<const Numerics> CudaNumerics() {
  static constexpr Numerics kSatisfied[] = {Numerics::kBackendOwn, Numerics::kReference1};
  return kSatisfied;
}

StepGrid CudaBackend::GridOf(const runtime::StepShape& shape) const {
  return {tokens(), shape.tokens, shape.top_k, shape.hidden, shape.columns, shape.gated};
}

DeviceOwned CudaBackend::OwnedOf(const runtime::OwnedSlots& owned) const {
  return {owned.routing.experts.data(), owned.routing.weights.data(), tables_->Of(owned.places)};
}

absl::Status CudaBackend::Score(const runtime::StepShape& shape, const Router& rule,
                                const runtime::WeightMatrix& weight, const runtime::WeightMatrix& bias,
                                absl::Span<const float> x) {
  return FromCuda(LaunchRouterLogits(
                      stream_, kind_,
                      {tokens(), shape.tokens, InPlace(weight), InPlace(bias), rule.input, x.data(), scratch_.logits}),
                  "the router's scores");
}

absl::Status CudaBackend::Route(const runtime::RouteArgs& args) {
  MESHSEAL_RETURN_IF_ERROR(Score(args.shape, args.router, args.weight, args.bias, args.x));
  Note(StepKind::kRoute, {scratch_.route_failures, 1, 1});
  return FromCuda(
      LaunchRoute(stream_, {GridOf(args.shape),
                            args.router,
                            args.weight.rows,
                            scratch_.logits,
                            InPlace(args.selection_bias),
                            {args.experts.data(), args.weights.data(), scratch_.computed, scratch_.route_failures}}),
      "route");
}

absl::Status CudaBackend::RouteByTable(const runtime::RouteByTableArgs& args) {
  MESHSEAL_RETURN_IF_ERROR(Score(args.shape, args.router, args.weight, args.bias, args.x));
  Note(StepKind::kRouteByTable, {scratch_.route_failures, 1, 1});
  const TokenTable table = {args.table.data, args.table.dtype == DType::kI64, args.table.rows, args.table.row_bytes,
                            args.token_ids.data()};
  return FromCuda(
      LaunchRouteByTable(stream_,
                         {GridOf(args.shape),
                          args.router,
                          args.weight.rows,
                          scratch_.logits,
                          {},
                          {args.experts.data(), args.weights.data(), scratch_.computed, scratch_.route_failures}},
                         table),
      "route by table");
}

absl::Status CudaBackend::RouteGiven(const runtime::RouteGivenArgs& args) {
  Note(StepKind::kRouteGiven, {scratch_.route_failures, 1, 1});
  return FromCuda(
      LaunchRouteGiven(stream_, GridOf(args.shape), args.given.experts.data(), args.given.weights.data(),
                       {args.experts.data(), args.weights.data(), scratch_.computed, scratch_.route_failures}),
      "route given");
}

absl::Status CudaBackend::Scatter(const runtime::ScatterArgs& args) {
  Note(StepKind::kScatter, {scratch_.scatter_failure, 0, 1});
  ScatterStep step;
  step.grid = GridOf(args.shape);
  step.owned = OwnedOf(args.owned);
  step.weighs = args.weighs;
  step.local_experts = args.local_experts;
  step.tile_rows = args.tile_rows;
  step.capacity = static_cast<uint32_t>(args.slot_of_row.size());
  step.x = args.x.data();
  step.rows = args.rows.data();
  step.slot_of_row = args.slot_of_row.data();
  step.row_of_slot = args.row_of_slot.data();
  step.first_row = args.first_row.data();
  step.failure = scratch_.scatter_failure;
  step.local_of_slot = scratch_.local_of_slot;
  step.counts = scratch_.counts;
  MESHSEAL_RETURN_IF_CUDA_ERROR(LaunchScatter(stream_, step), "scatter");
  groups_ = true;
  if (kind_ != ProductKind::kLanes) return absl::OkStatus();
  // Kept for down, by when the plan may have given the grouping's place to another value.
  MESHSEAL_RETURN_IF_ERROR(EnqueueCopy(scratch_.slot_of_row, step.slot_of_row,
                                       args.slot_of_row.size() * sizeof(int32_t), cudaMemcpyDeviceToDevice, stream_,
                                       "the grouping"));
  MESHSEAL_RETURN_IF_ERROR(EnqueueCopy(scratch_.first_row, step.first_row, args.first_row.size() * sizeof(int32_t),
                                       cudaMemcpyDeviceToDevice, stream_, "the grouping"));
  grouping_ = {step.capacity, step.local_experts, scratch_.slot_of_row, scratch_.first_row};
  return absl::OkStatus();
}

CudaBackend::GroupedProduct CudaBackend::ChooseGrouped(
    Basis basis, absl::Span<const runtime::ExpertWeights> experts,
    absl::Span<const runtime::WeightMatrix runtime::ExpertWeights::*const> matrices) const {
  const std::optional<HalfType> half = HalfOf(basis);
  if (kind_ != ProductKind::kLanes || !half.has_value()) return {kind_};
  const HalfType type = *half;
  GroupedProduct product = {ProductKind::kTiles, true};
  for (const runtime::ExpertWeights& expert : experts) {
    for (const runtime::WeightMatrix runtime::ExpertWeights::*const matrix : matrices) {
      if ((expert.*matrix).empty()) continue;
      if (PiecesOf(type, InPlace(expert.*matrix)) == 0) return {kind_};
      product.are_halves = product.are_halves && AreHalves(type, InPlace(expert.*matrix));
    }
  }
  return product;
}

ProductKind CudaBackend::ChooseShared(Basis basis, absl::Span<const runtime::WeightMatrix* const> matrices) const {
  const std::optional<HalfType> type = HalfOf(basis);
  if (!groups_ || kind_ != ProductKind::kLanes || !type.has_value()) return kind_;
  for (const runtime::WeightMatrix* const matrix : matrices) {
    if (!matrix->empty() && PiecesOf(*type, InPlace(*matrix)) == 0) return kind_;
  }
  return ProductKind::kTiles;
}

absl::Status CudaBackend::GateUp(const runtime::GateUpArgs& args) {
  gate_up_ = {GridOf(args.shape),        OwnedOf(args.owned), args.weighs,     args.basis,
              tables_->Of(args.experts), args.x.data(),       args.out.data(), nullptr};
  return absl::OkStatus();
}

absl::Status CudaBackend::GateUpGrouped(const runtime::GateUpGroupedArgs& args) {
  const GroupedProduct product =
      ChooseGrouped(args.basis, args.experts, {&runtime::ExpertWeights::gate, &runtime::ExpertWeights::up});
  GateUpGroupedStep step;
  step.grid = GridOf(args.shape);
  step.grouping = {static_cast<uint32_t>(args.grouping.slot_of_row.size()), static_cast<uint32_t>(args.experts.size()),
                   args.grouping.slot_of_row.data(), args.grouping.first_row.data()};
  step.basis = args.basis;
  step.experts = tables_->Of(args.experts);
  step.rows = args.rows.data();
  step.out = args.out.data();
  step.are_halves = product.are_halves;
  return FromCuda(LaunchGateUpGrouped(stream_, product.kind, step), "grouped gate and up");
}

absl::Status CudaBackend::Unscatter(const runtime::UnscatterArgs& args) {
  return FromCuda(LaunchUnscatter(stream_, {GridOf(args.shape), args.grouping.row_of_slot.data(), args.shape.products(),
                                            args.rows.data(), args.out.data()}),
                  "unscatter");
}

absl::Status CudaBackend::Activation(const runtime::ActivationArgs& args) {
  if (const std::optional<GateUpStep> gate_up = std::exchange(gate_up_, std::nullopt); gate_up.has_value()) {
    const float* const x_end = gate_up->x + uint64_t{args.shape.tokens} * args.shape.hidden;
    const bool is_apart = x_end <= args.out.data() || args.out.data() + args.out.size() <= gate_up->x;
    if (is_apart && gate_up->out == args.gate_up.data()) {
      return FromCuda(
          LaunchGateUpActivation(stream_, kind_,
                                 {gate_up->grid, gate_up->owned, gate_up->weighs, args.weighs, gate_up->basis,
                                  args.activation, gate_up->experts, gate_up->x, args.out.data(), nullptr}),
          "gate, up and activation");
    }
    MESHSEAL_RETURN_IF_CUDA_ERROR(LaunchGateUp(stream_, kind_, *gate_up), "gate and up");
  }
  return FromCuda(LaunchActivation(stream_, {GridOf(args.shape), OwnedOf(args.owned), args.weighs, args.activation,
                                             args.gate_up.data(), args.out.data()}),
                  "activation");
}

absl::Status CudaBackend::Down(const runtime::DownArgs& args) {
  const GroupedProduct product = grouping_.capacity == 0
                                     ? GroupedProduct{kind_}
                                     : ChooseGrouped(args.basis, args.experts, {&runtime::ExpertWeights::down});
  DownStep step;
  step.grid = GridOf(args.shape);
  step.owned = OwnedOf(args.owned);
  step.adds_bias = args.adds_bias;
  step.basis = args.basis;
  step.experts = tables_->Of(args.experts);
  step.activations = args.activations.data();
  step.out = args.out.data();
  step.computed = scratch_.computed;
  step.grouping = grouping_;
  step.are_halves = product.are_halves;
  return FromCuda(LaunchDown(stream_, product.kind, step), "down");
}

absl::Status CudaBackend::DownExact(const runtime::DownExactArgs& args) {
  const auto words = static_cast<uint32_t>(DownExactFailures(args.shape.hidden));
  Note(StepKind::kDown, {scratch_.output_failures, args.shape.top_k, words});
  DownExactStep step;
  step.grid = GridOf(args.shape);
  step.owned = OwnedOf(args.owned);
  step.weighs = args.weighs;
  step.adds_bias = args.adds_bias;
  step.basis = args.basis;
  step.fixed_point = args.fixed_point;
  step.segment_ends = tables_->Of(args.segment_ends);
  step.segments = static_cast<uint32_t>(args.segment_ends.size());
  step.experts = tables_->Of(args.experts);
  step.activations = args.activations.data();
  step.out = args.out.data();
  step.failures = scratch_.output_failures;
  step.computed = scratch_.computed;
  return FromCuda(LaunchDownExact(stream_, step), "down");
}

absl::Status CudaBackend::SharedGateUp(const runtime::SharedGateUpArgs& args) {
  const ProductKind kind = ChooseShared(args.basis, {&args.shared.gate, &args.shared.up});
  return FromCuda(LaunchSharedGateUp(stream_, kind,
                                     {tokens(), args.shape.tokens, args.basis, InPlace(args.shared.gate),
                                      InPlace(args.shared.up), args.x.data(), args.out.data()}),
                  "the shared expert's gate and up");
}

absl::Status CudaBackend::SharedActivation(const runtime::SharedActivationArgs& args) {
  StepGrid grid = GridOf(args.shape);
  grid.columns = args.shared_columns;
  grid.gated = runtime::HasGate(args.activation.kind);
  return FromCuda(LaunchSharedActivation(stream_, {grid, args.activation, args.gate_up.data(), args.out.data()}),
                  "the shared expert's activation");
}

absl::Status CudaBackend::ShareOf(const runtime::StepShape& shape, const runtime::SharedWeights& shared,
                                  absl::Span<const float> x, const float** shares) {
  *shares = nullptr;
  if (shared.expert_gate.empty()) return absl::OkStatus();
  *shares = scratch_.shares;
  return FromCuda(LaunchSharedGate(stream_, kind_,
                                   {tokens(), shape.tokens, InPlace(shared.expert_gate), x.data(), scratch_.shares}),
                  "the shared expert's own gate");
}

absl::Status CudaBackend::SharedDown(const runtime::SharedDownArgs& args) {
  const float* shares = nullptr;
  MESHSEAL_RETURN_IF_ERROR(ShareOf(args.shape, args.shared, args.x, &shares));
  return FromCuda(LaunchSharedDown(stream_, ChooseShared(args.basis, {&args.shared.down}),
                                   {tokens(), args.shape.tokens, args.shape.hidden, args.basis,
                                    InPlace(args.shared.down), args.activations.data(), shares, args.out.data()}),
                  "the shared expert's down");
}

absl::Status CudaBackend::SharedDownExact(const runtime::SharedDownExactArgs& args) {
  const float* shares = nullptr;
  MESHSEAL_RETURN_IF_ERROR(ShareOf(args.shape, args.shared, args.x, &shares));
  const auto words = static_cast<uint32_t>(SharedDownExactFailures(args.shape.hidden));
  Note(StepKind::kSharedDown, {scratch_.shared_failures, 1, words});
  SharedDownExactStep step;
  step.tokens = tokens();
  step.max_tokens = args.shape.tokens;
  step.hidden = args.shape.hidden;
  step.basis = args.basis;
  step.fixed_point = args.fixed_point;
  step.segment_ends = tables_->Of(args.segment_ends);
  step.segments = static_cast<uint32_t>(args.segment_ends.size());
  step.down = InPlace(args.shared.down);
  step.activations = args.activations.data();
  step.shares = shares;
  step.out = args.out.data();
  step.failures = scratch_.shared_failures;
  return FromCuda(LaunchSharedDownExact(stream_, step), "the shared expert's down");
}

absl::Status CudaBackend::SumSlots(const runtime::CombineArgs& args, const float* shared, StepKind step) {
  const uint32_t chunks = CombineChunks(args.shape.hidden);
  Note(step, {scratch_.output_failures, 1, chunks});
  if (shared != nullptr) Note(step, {scratch_.shared_failures, 1, chunks});
  return FromCuda(LaunchCombine(stream_, {GridOf(args.shape), OwnedOf(args.owned), args.weighs, args.slots.data(),
                                          shared, args.out.data(), scratch_.output_failures,
                                          shared == nullptr ? nullptr : scratch_.shared_failures}),
                  "combine");
}

absl::Status CudaBackend::Combine(const runtime::CombineArgs& args) {
  return SumSlots(args, nullptr, StepKind::kCombine);
}
absl::Status CudaBackend::CombineShared(const runtime::CombineSharedArgs& args) {
  return SumSlots(args.combine, args.shared.data(), StepKind::kCombineShared);
}

absl::Status CudaBackend::CombineExact(const runtime::CombineExactArgs& args) {
  return FromCuda(LaunchCombineExact(
                      stream_, {GridOf(args.shape), OwnedOf(args.owned), args.slots.data(), nullptr, args.out.data()}),
                  "combine");
}
absl::Status CudaBackend::CombineSharedExact(const runtime::CombineSharedExactArgs& args) {
  const runtime::CombineExactArgs& combine = args.combine;
  return FromCuda(LaunchCombineExact(stream_, {GridOf(combine.shape), OwnedOf(combine.owned), combine.slots.data(),
                                               args.shared.data(), combine.out.data()}),
                  "combine");
}

absl::Status CudaBackend::Residual(const runtime::ResidualArgs& args) {
  return FromCuda(LaunchResidual(stream_, {&scratch_.parameters->own, args.shape.tokens, args.shape.hidden,
                                           args.reduced.data(), args.input.data(), args.out.data()}),
                  "residual");
}

}  // namespace meshseal::cuda
