#include "tests/support/plan_builder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "schema/fingerprint.h"
#include "schema/mesh_view.h"
#include "schema/plan_codec.h"

namespace meshseal::support {
namespace {

using Axis = ShapeAxis;

constexpr uint64_t kHostBytes = uint64_t{1} << 40;

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "plan_builder: %s\n", what.c_str());
  std::abort();
}

uint64_t CeilDiv(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit; }
uint64_t RoundUp(uint64_t value, uint64_t unit) { return CeilDiv(value, unit) * unit; }

// What one dense group brings to a step of `tokens`: an even share.
uint32_t OwnTokens(uint32_t tokens, const Degrees& d) {
  return static_cast<uint32_t>(CeilDiv(tokens, d.tp * d.ep / d.dense_tp));
}

std::vector<uint32_t> EvenEndsOf(uint32_t total, uint32_t parts, uint32_t unit) {
  std::vector<uint32_t> ends = EvenEnds(static_cast<uint32_t>(CeilDiv(total, unit)), parts);
  for (uint32_t& end : ends) end = std::min(end * unit, total);
  return ends;
}

std::vector<SideTensor> SidesOf(const PlanNumbers& n, DType dtype, const std::string& name) {
  const SideTensor scale = {SideKind::kScale,        DType::kF32,      name + "_scale", n.scale_block, n.scale_block,
                            ScaleApplies::kMultiply, ScaleOf::kInvalid};
  SideTensor small = scale;
  small.block_rows = 1;
  SideTensor whole = scale;
  whole.block_rows = whole.block_columns = 0;
  if (n.weight_source == WeightSource::kGguf) return {};
  if (dtype == DType::kF8E4M3) return {scale};
  if (dtype == DType::kMxfp4) {
    small.dtype = DType::kU8;
    small.block_columns = 32;
    return {small};
  }
  if (dtype == DType::kNvfp4) {
    small.dtype = DType::kF8E4M3;
    small.block_columns = 16;
    whole.kind = SideKind::kScale2;
    whole.name = name + "_scale_2";
    return {small, whole};
  }
  return {};
}

std::vector<TensorClass> Tensors(const PlanNumbers& n, bool gated) {
  std::vector<TensorClass> tensors;
  const DType weight = n.weight_dtype == DType::kInvalid ? n.dtype : n.weight_dtype;
  const auto add = [&](TensorRole role, DType dtype, const std::string& name, std::vector<Axis> shape) {
    tensors.push_back({role, dtype, name, std::move(shape), GateUpLayout::kInvalid, 0, SidesOf(n, dtype, name)});
  };
  const auto add_fused = [&](TensorRole role, DType dtype, const std::string& name, std::vector<Axis> shape) {
    add(role, dtype, name, std::move(shape));
    tensors.back().layout = GateUpLayout::kHalves;
    for (SideTensor& side : tensors.back().sides) {
      if (side.block_rows > 1) side.of = ScaleOf::kHalf;
    }
  };
  const std::string layer = "layers.{layer}.";
  const bool fused = gated && n.fused;
  if (n.router.scoring != Scoring::kPrecomputed) {
    add(TensorRole::kRouter, n.dtype, n.router_name, {Axis::kExperts, Axis::kHidden});
  }
  if (gated && !fused) add(TensorRole::kGate, weight, n.gate_name, {Axis::kIntermediate, Axis::kHidden});
  if (!fused) add(TensorRole::kUp, weight, n.up_name, {Axis::kIntermediate, Axis::kHidden});
  add(TensorRole::kDown, weight, n.down_name, {Axis::kHidden, Axis::kIntermediate});
  if (n.router_bias) add(TensorRole::kRouterBias, n.dtype, layer + "router_bias", {Axis::kExperts});
  if (n.selection_bias) add(TensorRole::kSelectionBias, n.dtype, layer + "selection_bias", {Axis::kExperts});
  if (n.router.vocabulary > 0) {
    add(TensorRole::kTokenTable, DType::kI32, layer + "token_table", {Axis::kTokenIds, Axis::kTopK});
  }
  if (fused) {
    add_fused(TensorRole::kGateUp, weight, layer + "experts.{expert}.gate_up", {Axis::kTwoIntermediate, Axis::kHidden});
  }
  if (n.biases && gated && !fused) {
    add(TensorRole::kGateBias, n.dtype, n.gate_name + "_bias", {Axis::kIntermediate});
  }
  if (n.biases && !fused) add(TensorRole::kUpBias, n.dtype, n.up_name + "_bias", {Axis::kIntermediate});
  if (n.biases && fused) {
    add_fused(TensorRole::kGateUpBias, n.dtype, layer + "experts.{expert}.gate_up_bias", {Axis::kTwoIntermediate});
  }
  if (n.biases) add(TensorRole::kDownBias, n.dtype, n.down_name + "_bias", {Axis::kHidden});
  if (n.shared_width == 0) return tensors;
  if (gated && !fused) add(TensorRole::kSharedGate, weight, layer + "shared.gate", {Axis::kShared, Axis::kHidden});
  if (!fused) add(TensorRole::kSharedUp, weight, layer + "shared.up", {Axis::kShared, Axis::kHidden});
  if (fused) {
    add_fused(TensorRole::kSharedGateUp, weight, layer + "shared.gate_up", {Axis::kTwoShared, Axis::kHidden});
  }
  add(TensorRole::kSharedDown, weight, layer + "shared.down", {Axis::kHidden, Axis::kShared});
  if (n.shared_gate == SharedGate::kSigmoid) {
    add(TensorRole::kSharedExpertGate, n.dtype, layer + "shared_gate", {Axis::kOne, Axis::kHidden});
  }
  return tensors;
}

// Of an ordered sum: exchanged where gathering brings a rank at least 1 MiB more, or where it is scattered.
ReduceAlgorithm AlgorithmOf(const PlanNumbers& n, const Degrees& degrees, uint32_t tokens) {
  if (n.reduction != Reduction::kOrdered) return ReduceAlgorithm::kTransport;
  if (degrees.dense_tp < n.tp * n.ep) return ReduceAlgorithm::kExchangeThenSum;
  const uint64_t ranks = uint64_t{n.tp} * n.ep;
  const uint64_t gathered = (ranks - 1) * tokens * n.hidden * 4;
  // 2 / ranks of it are exchanged.
  const bool exchanges = ranks > 2 && (ranks - 2) * gathered >= ranks << 20;
  return exchanges ? ReduceAlgorithm::kExchangeThenSum : ReduceAlgorithm::kGatherThenSum;
}

// Walks the grammar and numbers the values as it goes.
Program BuildProgram(const PlanNumbers& n, const LayerClass& c, const Degrees& degrees, Phase phase) {
  const bool gathers = degrees.dense_tp < n.tp * n.ep;
  const bool gated = n.activation.kind != ActivationKind::kRelu2;
  const bool split = n.shared_placement == SharedPlacement::kSplit;
  const bool on_input = n.router.weight_applied == WeightPoint::kInput;
  const bool exact = n.reduction == Reduction::kExact;
  const bool on_activation = on_input || n.router.weight_applied == WeightPoint::kActivation;
  const AxisPlacement r = AxisPlacement::kReplicated;
  const AxisPlacement cut = n.tp > 1 ? AxisPlacement::kSplitColumns : r;
  const AxisPlacement tp_sum = n.tp > 1 ? AxisPlacement::kAddend : r;
  const AxisPlacement ep_sum = n.ep > 1 ? AxisPlacement::kAddend : r;
  const AxisPlacement ep_cut = n.ep == 1 ? r : split ? AxisPlacement::kSplitColumns : AxisPlacement::kOnlyFirst;
  const RowSet owned = n.ep > 1 ? RowSet::kOwned : RowSet::kAll;
  const RowSet own = gathers ? RowSet::kPart : RowSet::kAll;
  const ValueWidth product = gated ? ValueWidth::kTwoColumns : ValueWidth::kColumns;
  const ValueWidth shared_product = gated ? ValueWidth::kTwoSharedColumns : ValueWidth::kSharedColumns;

  Program program;
  program.phase = phase;
  program.max_tokens = phase == Phase::kDecode ? n.decode_tokens : n.prefill_chunk;
  program.tile_rows = phase == Phase::kDecode ? 0 : n.tile_rows;
  program.index_bits = 32;
  program.reduce_algorithm = AlgorithmOf(n, degrees, program.max_tokens);
  program.values = {{ValueOrder::kToken, ValueWidth::kHidden, own, r, r, false}};
  // The first value of a new step.
  const auto add = [&](StepKind kind, std::vector<uint32_t> inputs, const std::vector<Value>& outputs) {
    Step step;
    step.kind = kind;
    step.inputs = std::move(inputs);
    for (const Value& value : outputs) {
      step.outputs.push_back(static_cast<uint32_t>(program.values.size()));
      program.values.push_back(value);
    }
    for (const TensorRole role : FindStep(kind)->tensors) {
      for (uint32_t t = 0; t < c.tensors.size(); ++t) {
        if (c.tensors[t].role == role) step.tensors.push_back(t);
      }
    }
    if (kind == StepKind::kCollective) {
      const CollectiveOp op = gathers ? CollectiveOp::kReduceScatter : CollectiveOp::kSum;
      step.collectives = {{op, GroupKind::kExpert, n.tp > 1, n.ep > 1}};
    }
    step.origin = {0, 1};
    program.steps.push_back(step);
    return step.outputs.front();
  };
  const auto slot_rows = [&](ValueOrder order, ValueWidth width, AxisPlacement tp, bool weighted) {
    return Value{order, width, owned, tp, r, weighted};
  };
  const auto fixed = [&](Value value) {
    value.fixed_point = exact;
    return value;
  };
  const auto shared_rows = [&](ValueWidth width, AxisPlacement tp, AxisPlacement ep) {
    return Value{ValueOrder::kShared, width, RowSet::kAll, tp, ep, false};
  };
  const Value routing_value = {ValueOrder::kRouting, ValueWidth::kIndex, RowSet::kAll, r, r, false};
  const Value sum = {ValueOrder::kToken, ValueWidth::kHidden, own, r, r, true};
  const Value addend = fixed({ValueOrder::kToken, ValueWidth::kHidden, RowSet::kAll, tp_sum, ep_sum, true});

  uint32_t token = 0;
  uint32_t routing = 0;
  if (n.router.scoring == Scoring::kPrecomputed) {
    program.values.push_back(routing_value);
    routing = add(StepKind::kRouteGiven, {1}, {routing_value});
  } else if (n.router.vocabulary > 0) {
    program.values.push_back({ValueOrder::kTokenId, ValueWidth::kIndex, RowSet::kAll, r, r, false});
    routing = add(StepKind::kRouteByTable, {0, 1}, {routing_value});
  } else {
    if (gathers) {
      token = add(StepKind::kGather, {0}, {{ValueOrder::kToken, ValueWidth::kHidden, RowSet::kAll, r, r, false}});
    }
    routing = add(StepKind::kRoute, {token}, {routing_value});
  }
  uint32_t slots = 0;
  if (phase == Phase::kDecode) {
    slots = add(StepKind::kGateUp, {token, routing}, {slot_rows(ValueOrder::kSlot, product, cut, on_input)});
  } else {
    const uint32_t rows = add(StepKind::kScatter, {token, routing},
                              {slot_rows(ValueOrder::kRow, ValueWidth::kHidden, r, on_input),
                               {ValueOrder::kGrouping, ValueWidth::kIndex, owned, r, r, false}});
    const uint32_t grouping = rows + 1;
    slots = add(StepKind::kGateUpGrouped, {rows, grouping}, {slot_rows(ValueOrder::kRow, product, cut, on_input)});
    slots = add(StepKind::kUnscatter, {slots, grouping}, {slot_rows(ValueOrder::kSlot, product, cut, on_input)});
  }
  slots = add(StepKind::kActivation, {slots, routing},
              {slot_rows(ValueOrder::kSlot, ValueWidth::kColumns, cut, on_activation)});
  slots = add(StepKind::kDown, {slots, routing},
              {fixed(slot_rows(ValueOrder::kSlot, ValueWidth::kHidden, tp_sum, on_activation || exact))});
  uint32_t out = 0;
  if (n.shared_width > 0) {
    uint32_t shared = add(StepKind::kSharedGateUp, {token}, {shared_rows(shared_product, cut, ep_cut)});
    shared = add(StepKind::kSharedActivation, {shared}, {shared_rows(ValueWidth::kSharedColumns, cut, ep_cut)});
    shared = add(StepKind::kSharedDown, {shared, token}, {fixed(shared_rows(ValueWidth::kHidden, tp_sum, ep_sum))});
    out = add(StepKind::kCombineShared, {slots, routing, shared}, {addend});
  } else {
    out = add(StepKind::kCombine, {slots, routing}, {addend});
  }
  out = add(StepKind::kCollective, {out}, {sum});
  if (n.residual == Residual::kAdd) add(StepKind::kResidual, {out, 0}, {sum});
  return program;
}

// Experts, columns and shared columns of a rank.
using RankShape = std::array<uint32_t, 3>;

WorkLayout BuildLayout(const PlanNumbers& n, const Degrees& degrees, const Program& program, const RankShape& shape) {
  WorkLayout layout;
  layout.experts = shape[0];
  layout.columns = shape[1];
  layout.shared_columns = shape[2];
  const uint64_t tokens = program.max_tokens;
  const uint64_t slots = tokens * n.top_k;
  if (program.tile_rows > 0) {
    const uint64_t tile = program.tile_rows;
    const uint64_t rows = tokens * std::min(n.top_k, layout.experts);
    const uint64_t active = std::min<uint64_t>(layout.experts, rows);
    layout.grouped_rows = std::min(tile * (active + (rows - active) / tile), layout.experts * RoundUp(tokens, tile));
  }
  for (const Value& value : program.values) {
    uint64_t width = n.hidden;
    if (value.width == ValueWidth::kColumns) width = layout.columns;
    if (value.width == ValueWidth::kTwoColumns) width = uint64_t{layout.columns} * 2;
    if (value.width == ValueWidth::kSharedColumns) width = layout.shared_columns;
    if (value.width == ValueWidth::kTwoSharedColumns) width = uint64_t{layout.shared_columns} * 2;
    uint64_t elements = tokens * width;
    if (value.rows == RowSet::kPart) elements = OwnTokens(program.max_tokens, degrees) * width;
    if (value.order == ValueOrder::kRouting) elements = slots * 2;
    if (value.order == ValueOrder::kGrouping) elements = layout.grouped_rows + slots + layout.experts + 1;
    if (value.order == ValueOrder::kTokenId) elements = tokens;
    if (value.order == ValueOrder::kSlot) elements = slots * width;
    if (value.order == ValueOrder::kRow) elements = layout.grouped_rows * width;
    const uint64_t bytes = elements * (value.fixed_point ? 8 : 4);
    layout.buffers.push_back({layout.arena_bytes, bytes});
    layout.arena_bytes = RoundUp(layout.arena_bytes + bytes, 64);
  }
  return layout;
}

// Expert i is copied to the owner after the last one that holds it, then expert i + 1, and round again.
std::vector<ExpertCopy> BuildCopies(const PlanNumbers& n, const LayerClass& c, std::vector<uint32_t> next_local) {
  if (n.copies > uint64_t{c.experts} * (n.ep - 1)) Die("more copies than ranks for them");
  std::vector<ExpertCopy> copies;
  for (uint32_t owner = 0; owner < n.ep; ++owner) {
    for (uint32_t i = 0; i < n.copies; ++i) {
      const uint32_t expert = i % c.experts;
      if ((c.expert_shards[expert].owner + 1 + i / c.experts) % n.ep != owner) continue;
      copies.push_back({expert, owner, next_local[owner]++});
    }
  }
  return copies;
}

LoadBalance BuildLoad(const PlanNumbers& n, const LayerClass& c) {
  LoadBalance load;
  if (n.load.empty()) return load;
  load.slots = n.load;
  load.slots.resize(c.experts);
  std::vector<uint64_t> holders(c.experts, 1);
  for (const ExpertCopy& copy : c.expert_copies) ++holders[copy.expert];
  std::vector<uint64_t> contiguous(n.ep);
  std::vector<uint64_t> placed(n.ep);
  const std::vector<uint32_t> ends = EvenEnds(c.experts, n.ep);
  for (uint32_t expert = 0; expert < c.experts; ++expert) {
    const auto part = std::upper_bound(ends.begin(), ends.end(), expert) - ends.begin();
    contiguous[static_cast<size_t>(part)] += load.slots[expert];
    placed[c.expert_shards[expert].owner] += CeilDiv(load.slots[expert], holders[expert]);
  }
  for (const ExpertCopy& copy : c.expert_copies) {
    placed[copy.owner] += CeilDiv(load.slots[copy.expert], holders[copy.expert]);
  }
  load.busiest_contiguous = *std::max_element(contiguous.begin(), contiguous.end());
  load.busiest = *std::max_element(placed.begin(), placed.end());
  return load;
}

SharedExpert BuildShared(const PlanNumbers& n) {
  SharedExpert shared;
  if (n.shared_width == 0) return shared;
  shared.width = n.shared_width;
  shared.gate = n.shared_gate;
  shared.activation = n.activation;
  shared.placement = n.shared_placement;
  const uint32_t parts = n.shared_placement == SharedPlacement::kSplit ? n.tp * n.ep : n.tp;
  shared.segment_ends = EvenEndsOf(n.shared_width, n.shared_segments == 0 ? parts : n.shared_segments, n.column_unit);
  for (const uint32_t end : EvenEnds(static_cast<uint32_t>(shared.segment_ends.size()), parts)) {
    shared.part_ends.push_back(shared.segment_ends[end - 1]);
  }
  return shared;
}

// What a class's ranks own, by coordinate.
struct Owned {
  std::vector<uint32_t> experts;              // per ep
  std::vector<uint32_t> columns;              // per tp
  std::vector<std::vector<uint32_t>> shared;  // per tp, then ep

  RankShape At(uint32_t tp, uint32_t ep) const { return {experts[ep], columns[tp], shared[tp][ep]}; }
};

Owned OwnedOf(const PlanNumbers& n, const LayerClass& c) {
  Owned owned;
  owned.experts.resize(n.ep);
  for (const ExpertShard& shard : c.expert_shards) ++owned.experts[shard.owner];
  for (const ExpertCopy& copy : c.expert_copies) ++owned.experts[copy.owner];
  uint32_t begin = 0;
  for (uint32_t tp = 0; tp < n.tp; ++tp) {
    const uint32_t end = c.segment_ends[c.tp_segment_ends[tp] - 1];
    owned.columns.push_back(end - begin);
    begin = end;
    owned.shared.emplace_back();
    for (uint32_t ep = 0; ep < n.ep; ++ep) {
      const bool split = n.shared_placement == SharedPlacement::kSplit;
      const std::vector<uint32_t>& ends = c.shared_expert.part_ends;
      const size_t part = split ? size_t{tp} * n.ep + ep : tp;
      const bool holds = n.shared_width > 0 && (split || ep == 0);
      owned.shared.back().push_back(!holds ? 0 : ends[part] - (part == 0 ? 0 : ends[part - 1]));
    }
  }
  return owned;
}

LayerClass BuildClass(const PlanNumbers& n, const Degrees& degrees) {
  LayerClass c;
  c.experts = n.experts;
  c.top_k = n.top_k;
  c.intermediate = n.intermediate;
  c.router = n.router;
  c.activation = n.activation;
  c.shared_expert = BuildShared(n);
  c.residual = n.residual;
  c.gate_up_basis = n.gate_up_basis;
  c.down_basis = n.down_basis;
  c.tensors = Tensors(n, n.activation.kind != ActivationKind::kRelu2);
  std::vector<uint32_t> next_local;
  uint32_t first = 0;
  for (const uint32_t end : EvenEnds(n.experts, n.ep)) {
    const auto owner = static_cast<uint32_t>(next_local.size());
    for (uint32_t local = 0; local < end - first; ++local) c.expert_shards.push_back({owner, local});
    next_local.push_back(end - first);
    first = end;
  }
  c.expert_copies = BuildCopies(n, c, next_local);
  c.load = BuildLoad(n, c);
  c.segment_ends = EvenEndsOf(n.intermediate, n.segments == 0 ? n.tp : n.segments, n.column_unit);
  c.tp_segment_ends = EvenEnds(static_cast<uint32_t>(c.segment_ends.size()), n.tp);
  if (n.reduction == Reduction::kExact) {
    const double addends = static_cast<double>(n.top_k) * static_cast<double>(c.segment_ends.size()) +
                           static_cast<double>(c.shared_expert.segment_ends.size()) + (n.biases ? n.top_k : 0);
    c.fraction_bits = static_cast<uint32_t>(62 - std::ceil(std::log2(n.exact_bound)) - std::ceil(std::log2(addends)));
  }
  const Owned owned = OwnedOf(n, c);
  std::set<RankShape> shapes;
  for (uint32_t tp = 0; tp < n.tp; ++tp) {
    for (uint32_t ep = 0; ep < n.ep; ++ep) shapes.insert(owned.At(tp, ep));
  }
  for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
    Program program = BuildProgram(n, c, degrees, phase);
    for (const RankShape& shape : shapes) program.layouts.push_back(BuildLayout(n, degrees, program, shape));
    c.programs.push_back(std::move(program));
  }
  return c;
}

uint64_t BytesOfTensor(const TensorClass& tensor, uint64_t rows, uint64_t columns) {
  if (rows == 0 || columns == 0) return 0;
  const DTypeRow& row = *FindDType(tensor.dtype);
  const bool apart = row.packed_bits > 0 && !tensor.sides.empty();
  uint64_t bytes = apart ? CeilDiv(rows * columns * row.packed_bits, 8)
                         : rows * CeilDiv(columns, row.block_elements) * row.block_bits / 8;
  for (const SideTensor& side : tensor.sides) {
    const uint64_t scale = FindDType(side.dtype)->block_bits / 8;
    const uint64_t halves = side.of == ScaleOf::kHalf ? 2 : 1;
    bytes += side.block_rows == 0
                 ? (tensor.layout == GateUpLayout::kInvalid ? 1 : 2) * scale
                 : halves * CeilDiv(rows / halves, side.block_rows) * CeilDiv(columns, side.block_columns) * scale;
  }
  return bytes;
}

// One layer's weights on a rank: of each expert, and of everything else.
struct LayerWeights {
  uint64_t per_expert = 0;
  uint64_t rest = 0;
};

LayerWeights WeightsOf(const PlanNumbers& n, const LayerClass& c, const RankShape& shape) {
  const auto extent = [&](Axis axis) -> uint64_t {
    if (axis == Axis::kHidden) return n.hidden;
    if (axis == Axis::kIntermediate) return shape[1];
    if (axis == Axis::kTwoIntermediate) return uint64_t{2} * shape[1];
    if (axis == Axis::kExperts) return c.experts;
    if (axis == Axis::kShared) return shape[2];
    if (axis == Axis::kTwoShared) return uint64_t{2} * shape[2];
    if (axis == Axis::kTokenIds) return n.router.vocabulary;
    if (axis == Axis::kTopK) return n.top_k;
    return 1;
  };
  LayerWeights weights;
  for (const TensorClass& tensor : c.tensors) {
    const uint64_t columns = tensor.shape.size() > 1 ? extent(tensor.shape[1]) : 1;
    const bool per_expert = absl::string_view(tensor.name).find("{expert}") != absl::string_view::npos;
    (per_expert ? weights.per_expert : weights.rest) += BytesOfTensor(tensor, extent(tensor.shape[0]), columns);
  }
  return weights;
}

uint64_t CollectiveBytes(const PlanNumbers& n, const Degrees& degrees, const Program& program) {
  const uint64_t ranks = uint64_t{n.tp} * n.ep;
  const uint64_t dense_groups = ranks / degrees.dense_tp;
  const uint64_t element = n.reduction == Reduction::kExact ? 8 : 4;
  const uint32_t tokens = program.max_tokens;
  const uint64_t rows = uint64_t{dense_groups > 1 ? OwnTokens(tokens, degrees) : tokens} * n.hidden;
  const uint64_t slice = rows * element + 64;
  const bool ordered = n.reduction == Reduction::kOrdered;
  if (dense_groups > 1) return slice * (ordered ? ranks : dense_groups) + rows * 4 * dense_groups;
  if (ranks == 1 || program.reduce_algorithm == ReduceAlgorithm::kGatherThenSum) return slice * ranks;
  return slice + CeilDiv(rows, ranks) * element * (ordered ? ranks : 1);
}

RankMemory BuildMemory(const PlanNumbers& n, const Plan& plan, const Coordinate& at) {
  const uint32_t stage_begin = at.pp == 0 ? 0 : plan.stage_ends[at.pp - 1];
  const uint64_t stage_layers = plan.stage_ends[at.pp] - stage_begin;
  RankMemory memory;
  for (const LayerClass& c : plan.layer_classes) {
    uint64_t layers = 0;
    for (const LayerRange& range : c.layers) {
      const uint32_t begin = std::max(range.first, stage_begin);
      const uint32_t end = std::min(range.last, plan.stage_ends[at.pp]);
      if (begin < end) layers += end - begin;
    }
    if (layers == 0) continue;
    const RankShape shape = OwnedOf(n, c).At(at.tp, at.ep);
    const LayerWeights weights = WeightsOf(n, c, shape);
    memory.weights += layers * (weights.rest + shape[0] * weights.per_expert);
    if (n.repack == Repack::kByExpert) memory.staging = std::max(memory.staging, weights.per_expert);
    if (n.repack == Repack::kByTensor) memory.staging = std::max(memory.staging, shape[0] * weights.per_expert);
    for (const Program& program : c.programs) {
      uint64_t& work = program.phase == Phase::kDecode ? memory.decode_work : memory.prefill_work;
      for (const WorkLayout& layout : program.layouts) {
        if (RankShape{layout.experts, layout.columns, layout.shared_columns} != shape) continue;
        work = std::max(work, layout.arena_bytes);
      }
      memory.collective = std::max(memory.collective, CollectiveBytes(n, plan.degrees, program));
    }
  }
  uint64_t other = CeilDiv(n.other_weights.layers * stage_layers, n.layers);
  if (at.pp == 0) other += n.other_weights.first;
  if (at.pp + 1 == n.pp) other += n.other_weights.last;
  memory.other = CeilDiv(other, plan.degrees.dense_tp);
  if (n.kv_heads == KvHeads::kReplicate && n.attention.kv_heads > 0 && plan.degrees.dense_tp > n.attention.kv_heads) {
    const uint64_t head = 4 * uint64_t{n.attention.head_dim} * n.hidden * stage_layers;
    memory.other += head - head * n.attention.kv_heads / plan.degrees.dense_tp;
  }
  memory.repacked = n.repacked_bytes;
  memory.communicator = n.tp * n.ep > 1 ? n.communicator_bytes : 0;
  memory.capture = n.capture_bytes;
  memory.sessions = n.per_session_bytes;
  memory.total = memory.weights + memory.other + memory.repacked +
                 std::max({memory.staging, memory.decode_work, memory.prefill_work}) + memory.collective +
                 memory.communicator + memory.capture + memory.sessions;
  memory.budget = kHostBytes - n.headroom_bytes;
  return memory;
}

}  // namespace

std::vector<uint32_t> EvenEnds(uint32_t total, uint32_t parts) {
  std::vector<uint32_t> ends;
  uint32_t end = 0;
  for (uint32_t part = 0; part < parts; ++part) {
    end += total / parts + (part < total % parts ? 1 : 0);
    ends.push_back(end);
  }
  return ends;
}

Plan BuildPlan(const PlanNumbers& n) {
  Plan plan;
  plan.compiler_version = "0.1.0";
  plan.schema_fingerprint = SchemaFingerprint();
  plan.model_name = "tiny";
  plan.model_family = "test";
  plan.deployment_name = "test";
  plan.sources = {{"deployment.yaml", {}}, {"model.yaml", {}}, {"mesh.yaml", {}}};
  if (!n.load.empty()) plan.sources.push_back({"load.json", {}});

  plan.degrees = {n.dp, n.pp, n.tp, n.ep, n.dense_tp == 0 ? n.tp * n.ep : n.dense_tp};
  const uint32_t world = n.dp * n.pp * n.tp * n.ep;
  plan.mesh.name = "threads";
  plan.mesh.emulated = true;
  plan.mesh.transport = n.transport;
  plan.mesh.capturable = n.transport == Transport::kNccl;
  plan.mesh.device_kinds = {{"host", MemoryKind::kHost, kHostBytes, kHostBytes, n.communicator_bytes}};
  plan.mesh.nodes = {{"node0", 0, 1, 0, {}}};
  plan.mesh.rank_slots.assign(world, {0, 0});
  plan.stage_ends = EvenEnds(n.layers, n.pp);
  plan.layers = n.layers;
  plan.hidden = n.hidden;
  plan.attention = n.attention;
  plan.kv_heads = n.kv_heads;
  plan.other_weights = n.other_weights;

  plan.limits.decode_tokens = n.decode_tokens;
  plan.limits.decode_buckets = {n.decode_tokens};
  plan.limits.prefill_tokens = n.prefill_tokens;
  plan.limits.prefill_chunk = n.prefill_chunk;
  plan.limits.rank_decode_tokens = OwnTokens(n.decode_tokens, plan.degrees);
  plan.limits.rank_prefill_tokens = OwnTokens(n.prefill_chunk, plan.degrees);
  plan.limits.sessions = 1;
  plan.limits.per_session_bytes = n.per_session_bytes;
  plan.limits.headroom_bytes = n.headroom_bytes;
  plan.limits.capture_bytes = n.capture_bytes;
  plan.limits.repack = n.repack;
  plan.limits.repacked_bytes = n.repacked_bytes;
  plan.expert_placement = n.load.empty() ? ExpertPlacement::kContiguous : ExpertPlacement::kBalanced;
  plan.copy_choice = CopyChoice::kTokenModCopies;
  plan.reduction = n.reduction;
  plan.exact_bound = n.reduction == Reduction::kExact ? n.exact_bound : 0;
  plan.output = n.output;
  plan.numerics = n.reduction == Reduction::kExact ? Numerics::kReference1 : Numerics::kBackendOwn;
  plan.failure_scope = n.failure_scope;
  plan.weight_source = n.weight_source;
  plan.ignored_tensors = n.ignored_tensors;

  plan.layer_classes.push_back(BuildClass(n, plan.degrees));
  plan.layer_classes[0].layers = n.moe_layers.empty() ? std::vector<LayerRange>{{0, n.layers}} : n.moe_layers;
  if (!n.second_layers.empty()) {
    PlanNumbers second = n;
    if (n.second_experts > 0) second.experts = n.second_experts;
    second.activation = {ActivationKind::kGeGlu, 0, 0};
    plan.layer_classes.push_back(BuildClass(second, plan.degrees));
    plan.layer_classes[1].layers = n.second_layers;
  }
  for (uint32_t rank = 0; rank < world; ++rank) {
    plan.memory.push_back(BuildMemory(n, plan, CoordinateOf(plan.degrees, rank)));
  }
  if (n.priced) {
    plan.prices.resize(2);
    plan.prices[0].tokens = n.decode_tokens;
    plan.prices[1].tokens = n.prefill_chunk;
    plan.mesh.device_kinds[0].bandwidth = 100'000'000'000;
    plan.mesh.device_kinds[0].bf16_rate = 1'000'000'000'000;
    plan.mesh.island_links = {{10'000'000'000, 2000}};
  }
  plan.execution_fingerprint = ExecutionFingerprint(plan);
  return plan;
}

SealedPlan Seal(const Plan& plan) {
  const absl::StatusOr<std::string> file = SealPlan(plan, 1);
  if (!file.ok()) Die(std::string(file.status().message()));
  absl::StatusOr<SealedPlan> opened = SealedPlan::Open(*file, Policy{});
  if (!opened.ok()) Die(std::string(opened.status().message()));
  return std::move(opened).value();
}

}  // namespace meshseal::support
