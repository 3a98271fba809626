#include <cstdint>
#include <string>
#include <vector>

#include "compiler/lowering/executable.h"
#include "compiler/lowering/plan_draft.h"
#include "schema/fingerprint.h"
#include "schema/plan_codec.h"
#include "schema/version.h"

namespace meshseal::compiler {
namespace {

// The documents of a plan, in this order; an Origin's source is an index into it.
enum Document : uint32_t { kDeployment = 0, kModel = 1, kMesh = 2 };

SourceDocument DocumentOf(const SourceFile& file) { return {std::string(file.base_name()), Sha256(file.text())}; }

Mesh LowerMesh(const MeshSpec& spec, const Placement& placement) {
  Mesh mesh;
  mesh.name = spec.name.value;
  mesh.emulated = spec.emulated.value;
  mesh.transport = spec.transport.value;
  for (const DeviceKindSpec& kind : spec.device_kinds) {
    mesh.device_kinds.push_back({kind.name.value, kind.memory_kind.value, kind.memory.value, kind.usable.value,
                                 kind.communicator_reserve.value});
  }
  for (const NodeSpec& node : spec.nodes) {
    const auto kind = static_cast<uint32_t>(spec.FindKind(node.kind.value) - spec.device_kinds.data());
    mesh.nodes.push_back({node.name.value, kind, static_cast<uint32_t>(node.slots.value)});
  }
  mesh.rank_slots = placement.rank_slots();
  return mesh;
}

Limits LowerLimits(const Deployment& deployment) {
  Limits limits;
  limits.decode_tokens = static_cast<uint32_t>(deployment.decode_tokens.value);
  for (const uint64_t bucket : deployment.decode_buckets.value) {
    limits.decode_buckets.push_back(static_cast<uint32_t>(bucket));
  }
  limits.prefill_tokens = static_cast<uint32_t>(deployment.prefill_tokens.value);
  limits.prefill_chunk = static_cast<uint32_t>(deployment.prefill_chunk.value);
  limits.sessions = static_cast<uint32_t>(deployment.sessions.value);
  limits.per_session_bytes = deployment.per_session.value;
  limits.headroom_bytes = deployment.headroom.value;
  return limits;
}

Router LowerRouter(const RouterSpec& spec) {
  Router router;
  router.scoring = spec.scoring.value;
  router.order = spec.order.value;
  router.renormalize = spec.renormalize.value;
  router.weight_applied = spec.weight_applied.value;
  router.input = spec.input_dtype.value;
  router.scale = static_cast<float>(spec.scale.value);
  return router;
}

// Tensor classes in the order of their roles, whatever the order in the manifest.
std::vector<TensorClass> LowerTensors(const MoeSpec& moe) {
  std::vector<TensorClass> tensors;
  for (const Term& role : Terms<TensorRole>()) {
    for (const TensorSpec& spec : moe.tensors) {
      if (static_cast<uint8_t>(spec.role.value) != role.value) continue;
      tensors.push_back({spec.role.value, spec.dtype.value, spec.name.value, spec.shape.value});
    }
  }
  return tensors;
}

// The manifest line that decides what a step does.
Span OriginOf(StepKind kind, const Manifest& model, const MoeSpec& moe) {
  const auto tensor = [&](TensorRole role) {
    const TensorSpec* spec = moe.FindTensor(role);
    return spec == nullptr ? model.tensors_span : spec->role.span;
  };
  switch (kind) {
    case StepKind::kGateUp:
    case StepKind::kGateUpGrouped:
      return tensor(TensorRole::kGate);
    case StepKind::kDown:
      return tensor(TensorRole::kDown);
    case StepKind::kActivation:
      return moe.activation.kind.span;
    case StepKind::kCombine:
      return moe.router.weight_applied.span;
    case StepKind::kCollective:
      return model.collectives.front().span;
    case StepKind::kResidual:
      return moe.residual.span;
    case StepKind::kRoute:
    case StepKind::kScatter:
    case StepKind::kUnscatter:
    case StepKind::kInvalid:
      break;
  }
  return moe.router.span;
}

Program LowerProgram(const PhaseBudget& budget, const Manifest& model, const MoeSpec& moe,
                     const std::vector<TensorClass>& tensors) {
  Program program;
  program.phase = budget.phase;
  program.max_tokens = budget.max_tokens;
  program.tile_rows = budget.tile_rows;
  for (const FlowValue& value : budget.flow.values) program.values.push_back(value.type);
  for (const FlowStep& flow : budget.flow.steps) {
    Step step;
    step.kind = flow.kind;
    step.inputs = flow.inputs;
    step.outputs = flow.outputs;
    for (const TensorRole role : FindStep(flow.kind)->tensors) {
      for (uint32_t tensor = 0; tensor < tensors.size(); ++tensor) {
        if (tensors[tensor].role == role) step.tensors.push_back(tensor);
      }
    }
    if (flow.kind == StepKind::kCollective) {
      const Value& input = program.values[flow.inputs.front()];
      step.collectives.push_back({CollectiveOp::kSum, GroupKind::kExpert, input.tp == AxisPlacement::kAddend,
                                  input.ep == AxisPlacement::kAddend});
    }
    step.origin = {kModel, OriginOf(flow.kind, model, moe).line};
    program.steps.push_back(std::move(step));
  }
  program.layouts = budget.layouts;
  return program;
}

LayerClass LowerLayers(const CheckedModel& checked, const LayerGroup& group, const GroupPlacement& placement,
                       const std::vector<PhaseBudget>& phases) {
  const MoeSpec& moe = group.moe;
  LayerClass layers;
  layers.layers = group.layers;
  layers.experts = static_cast<uint32_t>(moe.experts.value);
  layers.top_k = static_cast<uint32_t>(moe.experts_per_token.value);
  layers.intermediate = static_cast<uint32_t>(moe.intermediate_size.value);
  layers.router = LowerRouter(moe.router);
  layers.activation = moe.activation.kind.value;
  layers.residual = moe.residual.value;
  layers.gate_up_basis = checked.deployment().gate_up_basis.value;
  layers.down_basis = checked.deployment().down_basis.value;
  layers.tensors = LowerTensors(moe);
  layers.expert_shards = placement.expert_shards;
  layers.segment_ends = placement.segment_ends;
  layers.tp_segment_ends = placement.tp_segment_ends;
  for (const PhaseBudget& phase : phases) {
    layers.programs.push_back(LowerProgram(phase, checked.model(), moe, layers.tensors));
  }
  return layers;
}

}  // namespace

std::optional<PlanDraft> Lower(const CheckedModel& checked, const Placement& placement, const MemoryPlan& memory,
                               Diagnostics& diagnostics) {
  const size_t before = diagnostics.size();
  CheckExecutable(checked, diagnostics);
  if (diagnostics.size() != before) return std::nullopt;
  const Manifest& model = checked.model();
  const Deployment& deployment = checked.deployment();
  Plan plan;
  plan.compiler_version = std::string(Version());
  plan.schema_fingerprint = SchemaFingerprint();
  plan.model_name = model.name.value;
  plan.model_family = model.family.value;
  plan.deployment_name = deployment.name;
  plan.sources = {DocumentOf(*deployment.file), DocumentOf(*model.file), DocumentOf(*checked.mesh().file)};
  plan.mesh = LowerMesh(checked.mesh(), placement);
  plan.degrees = placement.degrees();
  plan.stage_ends = placement.stage_ends();
  plan.layers = static_cast<uint32_t>(model.layers.value);
  plan.hidden = static_cast<uint32_t>(model.hidden_size.value);
  plan.other_weights_bytes = model.other_weights.value;
  plan.limits = LowerLimits(deployment);
  plan.reduction = deployment.reduction.value;
  plan.reduce_algorithm = ReduceAlgorithm::kGatherThenSum;
  plan.output = deployment.output_dtype.value;
  plan.numerics = Numerics::kBackendOwn;
  plan.failure_scope = deployment.failure_scope.value;
  plan.weight_source = model.source.value;
  for (const Spanned<std::string>& pattern : model.ignored) plan.ignored_tensors.push_back(pattern.value);
  for (size_t group = 0; group < model.groups.size(); ++group) {
    plan.layer_classes.push_back(
        LowerLayers(checked, model.groups[group], placement.groups()[group], memory.groups()[group]));
  }
  plan.memory = memory.ranks();
  plan.execution_fingerprint = ExecutionFingerprint(plan);
  return PlanDraft(std::move(plan));
}

}  // namespace meshseal::compiler
