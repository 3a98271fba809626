#include "tests/support/plan_builder.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <utility>

#include "absl/strings/string_view.h"
#include "schema/fingerprint.h"
#include "schema/mesh_view.h"
#include "schema/plan_codec.h"

namespace meshseal::support {
namespace {

constexpr uint64_t kHostBytes = uint64_t{1} << 40;

[[noreturn]] void Die(const absl::Status& status) {
  std::fprintf(stderr, "plan_builder: %s\n", std::string(status.message()).c_str());
  std::abort();
}

uint64_t RoundUp(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

std::vector<TensorClass> Tensors(const PlanNumbers& n) {
  using Axis = ShapeAxis;
  return {{TensorRole::kRouter, n.dtype, n.router_name, {Axis::kExperts, Axis::kHidden}},
          {TensorRole::kGate, n.dtype, n.gate_name, {Axis::kIntermediate, Axis::kHidden}},
          {TensorRole::kUp, n.dtype, n.up_name, {Axis::kIntermediate, Axis::kHidden}},
          {TensorRole::kDown, n.dtype, n.down_name, {Axis::kHidden, Axis::kIntermediate}}};
}

// Walks the grammar and numbers the values as it goes: inputs are the newest value of each order.
Program BuildProgram(const PlanNumbers& n, Phase phase) {
  const AxisPlacement r = AxisPlacement::kReplicated;
  const AxisPlacement cut = n.tp > 1 ? AxisPlacement::kSplitColumns : r;
  const AxisPlacement tp_sum = n.tp > 1 ? AxisPlacement::kAddend : r;
  const AxisPlacement ep_sum = n.ep > 1 ? AxisPlacement::kAddend : r;
  const RowSet owned = n.ep > 1 ? RowSet::kOwned : RowSet::kAll;
  const Value token = {ValueOrder::kToken, ValueWidth::kHidden, RowSet::kAll, r, r, false};
  const Value sum = {ValueOrder::kToken, ValueWidth::kHidden, RowSet::kAll, r, r, true};

  Program program;
  program.phase = phase;
  program.max_tokens = phase == Phase::kDecode ? n.decode_tokens : n.prefill_chunk;
  program.tile_rows = phase == Phase::kDecode ? 0 : n.tile_rows;
  program.values = {token};
  uint32_t routing = 0;
  uint32_t grouping = 0;
  uint32_t newest = 0;  // of any other order
  const auto add = [&](StepKind kind, std::vector<uint32_t> inputs, std::vector<Value> outputs,
                       std::vector<uint32_t> tensors) {
    Step step;
    step.kind = kind;
    step.inputs = std::move(inputs);
    for (const Value& value : outputs) {
      step.outputs.push_back(static_cast<uint32_t>(program.values.size()));
      program.values.push_back(value);
    }
    step.tensors = std::move(tensors);
    if (kind == StepKind::kCollective) {
      step.collectives = {{CollectiveOp::kSum, GroupKind::kExpert, n.tp > 1, n.ep > 1}};
    }
    step.origin = {0, 1};
    newest = step.outputs.front();
    program.steps.push_back(step);
  };
  const Value routing_value = {ValueOrder::kRouting, ValueWidth::kIndex, RowSet::kAll, r, r, false};
  const Value two_columns = {ValueOrder::kSlot, ValueWidth::kTwoColumns, owned, cut, r, false};
  add(StepKind::kRoute, {0}, {routing_value}, {0});
  routing = newest;
  if (phase == Phase::kDecode) {
    add(StepKind::kGateUp, {0, routing}, {two_columns}, {1, 2});
  } else {
    add(StepKind::kScatter, {0, routing},
        {{ValueOrder::kRow, ValueWidth::kHidden, owned, r, r, false},
         {ValueOrder::kGrouping, ValueWidth::kIndex, owned, r, r, false}},
        {});
    grouping = newest + 1;
    add(StepKind::kGateUpGrouped, {newest, grouping},
        {{ValueOrder::kRow, ValueWidth::kTwoColumns, owned, cut, r, false}}, {1, 2});
    add(StepKind::kUnscatter, {newest, grouping}, {two_columns}, {});
  }
  add(StepKind::kActivation, {newest, routing}, {{ValueOrder::kSlot, ValueWidth::kColumns, owned, cut, r, false}}, {});
  add(StepKind::kDown, {newest, routing}, {{ValueOrder::kSlot, ValueWidth::kHidden, owned, tp_sum, r, false}}, {3});
  add(StepKind::kCombine, {newest, routing},
      {{ValueOrder::kToken, ValueWidth::kHidden, RowSet::kAll, tp_sum, ep_sum, true}}, {});
  add(StepKind::kCollective, {newest}, {sum}, {});
  if (n.residual == Residual::kAdd) add(StepKind::kResidual, {newest, 0}, {sum}, {});
  return program;
}

WorkLayout BuildLayout(const PlanNumbers& n, const Program& program, uint32_t experts, uint32_t columns) {
  WorkLayout layout;
  layout.experts = experts;
  layout.columns = columns;
  const uint64_t tokens = program.max_tokens;
  const uint64_t slots = tokens * n.top_k;
  if (program.tile_rows > 0) {
    const uint64_t tile = program.tile_rows;
    const uint64_t rows = tokens * std::min(n.top_k, experts);
    const uint64_t active = std::min<uint64_t>(experts, rows);
    layout.grouped_rows = std::min(tile * (active + (rows - active) / tile), experts * RoundUp(tokens, tile));
  }
  for (const Value& value : program.values) {
    const uint64_t width = value.width == ValueWidth::kColumns      ? columns
                           : value.width == ValueWidth::kTwoColumns ? uint64_t{columns} * 2
                                                                    : n.hidden;
    uint64_t elements = 0;
    switch (value.order) {
      case ValueOrder::kRouting:
        elements = slots * 2;
        break;
      case ValueOrder::kGrouping:
        elements = layout.grouped_rows + slots + experts + 1;
        break;
      case ValueOrder::kSlot:
        elements = slots * width;
        break;
      case ValueOrder::kRow:
        elements = layout.grouped_rows * width;
        break;
      case ValueOrder::kToken:
      case ValueOrder::kInvalid:
        elements = tokens * width;
        break;
    }
    layout.buffers.push_back({layout.arena_bytes, elements * 4});
    layout.arena_bytes = RoundUp(layout.arena_bytes + elements * 4, 64);
  }
  return layout;
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

  plan.degrees = {n.dp, n.pp, n.tp, n.ep, n.tp * n.ep};
  const uint32_t world = n.dp * n.pp * n.tp * n.ep;
  plan.mesh.name = "threads";
  plan.mesh.emulated = true;
  plan.mesh.transport = n.transport;
  plan.mesh.device_kinds = {{"host", MemoryKind::kHost, uint64_t{1} << 40, uint64_t{1} << 40, 0}};
  plan.mesh.nodes = {{"node0", 0, 1}};
  plan.mesh.rank_slots.assign(world, {0, 0});
  plan.stage_ends = EvenEnds(n.layers, n.pp);
  plan.layers = n.layers;
  plan.hidden = n.hidden;

  plan.limits.decode_tokens = n.decode_tokens;
  plan.limits.decode_buckets = {n.decode_tokens};
  plan.limits.prefill_tokens = n.prefill_tokens;
  plan.limits.prefill_chunk = n.prefill_chunk;
  plan.limits.sessions = 1;
  plan.reduction = Reduction::kOrdered;
  plan.reduce_algorithm = ReduceAlgorithm::kGatherThenSum;
  plan.output = n.output;
  plan.numerics = Numerics::kBackendOwn;
  plan.failure_scope = n.failure_scope;
  plan.weight_source = WeightSource::kSafetensors;
  plan.ignored_tensors = n.ignored_tensors;

  LayerClass c;
  c.layers = n.moe_layers.empty() ? std::vector<LayerRange>{{0, n.layers}} : n.moe_layers;
  c.experts = n.experts;
  c.top_k = n.top_k;
  c.intermediate = n.intermediate;
  c.router = n.router;
  c.activation = ActivationKind::kSwiGlu;
  c.residual = n.residual;
  c.gate_up_basis = n.gate_up_basis;
  c.down_basis = n.down_basis;
  c.tensors = Tensors(n);
  std::vector<uint32_t> experts_of;
  uint32_t first = 0;
  for (const uint32_t end : EvenEnds(n.experts, n.ep)) {
    const auto owner = static_cast<uint32_t>(experts_of.size());
    for (uint32_t local = 0; local < end - first; ++local) c.expert_shards.push_back({owner, local});
    experts_of.push_back(end - first);
    first = end;
  }
  c.segment_ends = EvenEnds(n.intermediate, n.tp);
  std::vector<uint32_t> columns_of;
  for (uint32_t tp = 0; tp < n.tp; ++tp) {
    c.tp_segment_ends.push_back(tp + 1);
    columns_of.push_back(c.segment_ends[tp] - (tp == 0 ? 0 : c.segment_ends[tp - 1]));
  }
  std::set<std::pair<uint32_t, uint32_t>> shapes;
  for (const uint32_t experts : experts_of) {
    for (const uint32_t columns : columns_of) shapes.emplace(experts, columns);
  }
  for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
    Program program = BuildProgram(n, phase);
    for (const auto& [experts, columns] : shapes) {
      program.layouts.push_back(BuildLayout(n, program, experts, columns));
    }
    c.programs.push_back(std::move(program));
  }

  for (uint32_t rank = 0; rank < world; ++rank) {
    const Coordinate at = CoordinateOf(plan.degrees, rank);
    const uint32_t stage_begin = at.pp == 0 ? 0 : plan.stage_ends[at.pp - 1];
    uint64_t layers = 0;
    for (const LayerRange& range : c.layers) {
      const uint32_t begin = std::max(range.first, stage_begin);
      const uint32_t end = std::min(range.last, plan.stage_ends[at.pp]);
      if (begin < end) layers += end - begin;
    }
    RankMemory memory;
    if (layers > 0) {
      const uint64_t elements =
          uint64_t{n.experts} * n.hidden + 3 * uint64_t{experts_of[at.ep]} * columns_of[at.tp] * n.hidden;
      memory.weights = layers * *BytesOf(n.dtype, elements);
      for (const Program& program : c.programs) {
        for (const WorkLayout& layout : program.layouts) {
          if (layout.experts == experts_of[at.ep] && layout.columns == columns_of[at.tp]) {
            memory.work = std::max(memory.work, layout.arena_bytes);
          }
        }
        memory.collective =
            std::max(memory.collective, (uint64_t{program.max_tokens} * n.hidden * 4 + 64) * n.tp * n.ep);
      }
    }
    memory.total = memory.weights + memory.work + memory.collective;
    memory.budget = kHostBytes;
    plan.memory.push_back(memory);
  }
  plan.layer_classes = {std::move(c)};
  plan.execution_fingerprint = ExecutionFingerprint(plan);
  return plan;
}

SealedPlan Seal(const Plan& plan) {
  const absl::StatusOr<std::string> file = SealPlan(plan, 1);
  if (!file.ok()) Die(file.status());
  absl::StatusOr<SealedPlan> opened = SealedPlan::Open(*file, Policy{});
  if (!opened.ok()) Die(opened.status());
  return std::move(opened).value();
}

}  // namespace meshseal::support
