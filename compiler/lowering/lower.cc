#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/budget/price.h"
#include "compiler/check/exact_sum.h"
#include "compiler/check/tensor_classes.h"
#include "compiler/lowering/plan_draft.h"
#include "schema/fingerprint.h"
#include "schema/plan_codec.h"
#include "schema/version.h"

namespace meshseal::compiler {
namespace {

// The documents of a plan, in this order; an Origin's source is an index into it.
enum Document : uint32_t { kDeployment = 0, kModel = 1, kMesh = 2 };

SourceDocument DocumentOf(const SourceFile& file) { return {std::string(file.base_name()), Sha256(file.text())}; }

uint64_t Stated(const std::optional<Spanned<uint64_t>>& fact) { return fact.has_value() ? fact->value : 0; }

Link LowerLink(const LinkSpec& link) { return {link.bandwidth.value, link.latency.value}; }

Mesh LowerMesh(const MeshSpec& spec, const Placement& placement) {
  Mesh mesh;
  mesh.name = spec.name.value;
  mesh.emulated = spec.emulated.value;
  mesh.transport = spec.transport.value;
  mesh.capturable = spec.capturable.value;
  for (const DeviceKindSpec& kind : spec.device_kinds) {
    mesh.device_kinds.push_back({kind.name.value, kind.memory_kind.value, kind.memory.value, kind.usable.value,
                                 kind.communicator_reserve.value, Stated(kind.bandwidth), Stated(kind.bf16),
                                 static_cast<uint32_t>(Stated(kind.sm)), Stated(kind.shared_memory_per_block),
                                 kind.ecc.value, kind.peer_access.value, kind.fabric.value});
  }
  for (const IslandSpec& island : spec.islands) mesh.island_links.push_back(LowerLink(island.link));
  if (spec.islands.size() > 1) mesh.between_islands = LowerLink(*spec.between_islands);
  if (spec.version_min.has_value()) mesh.transport_version_min = spec.version_min->value;
  if (spec.version_max.has_value()) mesh.transport_version_max = spec.version_max->value;
  const std::vector<uint32_t> islands = IslandOfNode(spec);
  for (size_t i = 0; i < spec.nodes.size(); ++i) {
    const NodeSpec& node = spec.nodes[i];
    const auto kind = static_cast<uint32_t>(spec.FindKind(node.kind.value) - spec.device_kinds.data());
    Node lowered = {node.name.value, kind, static_cast<uint32_t>(node.slots.value), islands[i], {}};
    for (const Spanned<std::string>& device : node.identity) lowered.identity.push_back(device.value);
    mesh.nodes.push_back(std::move(lowered));
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
  limits.rank_decode_tokens = RankTokens(deployment, Phase::kDecode);
  limits.rank_prefill_tokens = RankTokens(deployment, Phase::kPrefill);
  limits.sessions = static_cast<uint32_t>(deployment.sessions.value);
  limits.per_session_bytes = deployment.per_session.value;
  limits.headroom_bytes = deployment.headroom.value;
  limits.capture_bytes = deployment.capture.value;
  limits.repack = deployment.repack.value;
  limits.repacked_bytes = deployment.repacked.value;
  return limits;
}

Router LowerRouter(const RouterSpec& spec) {
  Router router;
  router.scoring = spec.scoring.value;
  router.epsilon = static_cast<float>(spec.epsilon.value);
  router.order = spec.order.value;
  router.renormalize = spec.renormalize.value;
  router.guard = static_cast<float>(spec.guard.value);
  if (spec.groups.has_value()) {
    router.groups = {static_cast<uint32_t>(spec.groups->count.value), static_cast<uint32_t>(spec.groups->keep.value),
                     spec.groups->score.value};
  }
  router.weight_applied = spec.weight_applied.value;
  router.input = spec.input_dtype.value;
  router.scale = static_cast<float>(spec.scale.value);
  router.vocabulary = static_cast<uint32_t>(spec.vocabulary.value);
  return router;
}

Activation LowerActivation(const ActivationSpec& spec) {
  Activation activation;
  activation.kind = spec.kind.value;
  if (spec.alpha.has_value()) activation.alpha = static_cast<float>(spec.alpha->value);
  if (spec.limit.has_value()) activation.limit = static_cast<float>(spec.limit->value);
  return activation;
}

SharedExpert LowerSharedExpert(const MoeSpec& moe, const ClassPlacement& placement) {
  SharedExpert shared;
  if (!moe.shared_expert.has_value()) return shared;
  shared.width = static_cast<uint32_t>(moe.shared_expert->width.value);
  shared.gate = moe.shared_expert->gate.value;
  shared.activation = LowerActivation(moe.shared_expert->activation.value_or(moe.activation));
  shared.placement = placement.shared_split ? SharedPlacement::kSplit : SharedPlacement::kOwner;
  shared.part_ends = placement.shared_ends;
  shared.segment_ends = placement.shared_segment_ends;
  return shared;
}

// The manifest line that decides what a step does.
Span OriginOf(StepKind kind, const Manifest& model, const MoeSpec& moe) {
  const auto tensor = [&](TensorRole role) {
    const TensorSpec* spec = moe.FindTensor(role);
    return spec == nullptr ? model.tensors_span : spec->role.span;
  };
  const auto either = [&](TensorRole apart, TensorRole fused) {
    return moe.FindTensor(apart) == nullptr ? tensor(fused) : tensor(apart);
  };
  switch (kind) {
    case StepKind::kGateUp:
    case StepKind::kGateUpGrouped:
      return either(moe.gated.value ? TensorRole::kGate : TensorRole::kUp, TensorRole::kGateUp);
    case StepKind::kDown:
      return tensor(TensorRole::kDown);
    case StepKind::kActivation:
      return moe.activation.kind.span;
    case StepKind::kSharedGateUp:
      return either(moe.gated.value ? TensorRole::kSharedGate : TensorRole::kSharedUp, TensorRole::kSharedGateUp);
    case StepKind::kSharedActivation:
      return moe.shared_expert->span;
    case StepKind::kSharedDown:
      return tensor(TensorRole::kSharedDown);
    case StepKind::kCombine:
    case StepKind::kCombineShared:
      return moe.router.weight_applied.span;
    case StepKind::kGather:
    case StepKind::kCollective:
      return model.collectives.front().span;
    case StepKind::kResidual:
      return moe.residual.span;
    case StepKind::kRoute:
    case StepKind::kRouteByTable:
    case StepKind::kRouteGiven:
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
  program.index_bits = budget.index_bits;
  program.reduce_algorithm = budget.reduce_algorithm;
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
      const bool part = program.values[flow.outputs.front()].rows == RowSet::kPart;
      step.collectives.push_back({part ? CollectiveOp::kReduceScatter : CollectiveOp::kSum, GroupKind::kExpert,
                                  input.tp == AxisPlacement::kAddend, input.ep == AxisPlacement::kAddend});
    }
    step.origin = {kModel, OriginOf(flow.kind, model, moe).line};
    program.steps.push_back(std::move(step));
  }
  program.layouts = budget.layouts;
  return program;
}

LayerClass LowerLayers(const CheckedModel& checked, const ClassPlacement& placement,
                       const std::vector<PhaseBudget>& phases) {
  const MoeSpec& moe = checked.model().groups[placement.group].moe;
  LayerClass layers;
  layers.layers = placement.layers;
  layers.experts = static_cast<uint32_t>(moe.experts.value);
  layers.top_k = static_cast<uint32_t>(moe.experts_per_token.value);
  layers.intermediate = static_cast<uint32_t>(moe.intermediate_size.value);
  layers.router = LowerRouter(moe.router);
  layers.activation = LowerActivation(moe.activation);
  layers.shared_expert = LowerSharedExpert(moe, placement);
  layers.residual = moe.residual.value;
  layers.gate_up_basis = checked.deployment().gate_up_basis.value;
  layers.down_basis = checked.deployment().down_basis.value;
  layers.tensors = TensorClassesOf(moe);
  layers.expert_shards = placement.owners.shards;
  layers.expert_copies = placement.owners.copies;
  layers.load = placement.load;
  layers.segment_ends = placement.segment_ends;
  layers.tp_segment_ends = placement.tp_segment_ends;
  if (checked.deployment().reduction.value == Reduction::kExact) {
    layers.fraction_bits = static_cast<uint32_t>(ExactFractionBits(moe, checked.deployment()));
  }
  for (const PhaseBudget& phase : phases) {
    layers.programs.push_back(LowerProgram(phase, checked.model(), moe, layers.tensors));
  }
  return layers;
}

}  // namespace

PlanDraft Lower(const CheckedModel& checked, const Placement& placement, const MemoryPlan& memory) {
  const Manifest& model = checked.model();
  const Deployment& deployment = checked.deployment();
  Plan plan;
  plan.compiler_version = std::string(Version());
  plan.schema_fingerprint = SchemaFingerprint();
  plan.model_name = model.name.value;
  plan.model_family = model.family.value;
  plan.deployment_name = deployment.name;
  plan.sources = {DocumentOf(*deployment.file), DocumentOf(*model.file), DocumentOf(*checked.mesh().file)};
  if (checked.profile().has_value()) plan.sources.push_back(checked.profile()->document);
  plan.mesh = LowerMesh(checked.mesh(), placement);
  plan.degrees = placement.degrees();
  plan.stage_ends = placement.stage_ends();
  plan.layers = static_cast<uint32_t>(model.layers.value);
  plan.hidden = static_cast<uint32_t>(model.hidden_size.value);
  if (model.attention.has_value()) {
    plan.attention = {static_cast<uint32_t>(model.attention->heads.value),
                      static_cast<uint32_t>(model.attention->kv_heads.value),
                      static_cast<uint32_t>(model.attention->head_dim.value)};
  }
  plan.kv_heads = deployment.kv_heads;
  plan.other_weights = {model.other_weights.first.value, model.other_weights.layers.value,
                        model.other_weights.last.value};
  plan.limits = LowerLimits(deployment);
  plan.expert_placement = deployment.placement.value;
  plan.copy_choice = CopyChoice::kTokenModCopies;
  plan.reduction = deployment.reduction.value;
  plan.exact_bound = deployment.exact_bound.value;
  plan.output = deployment.output_dtype.value;
  plan.numerics = deployment.reduction.value == Reduction::kExact ? Numerics::kReference1 : Numerics::kBackendOwn;
  plan.failure_scope = deployment.failure_scope.value;
  plan.weight_source = model.source.value;
  plan.weight_seed = model.seed;
  plan.weights_digest = checked.documents().inputs().weights_digest;
  for (const Spanned<std::string>& pattern : model.ignored) plan.ignored_tensors.push_back(pattern.value);
  for (size_t i = 0; i < placement.classes().size(); ++i) {
    plan.layer_classes.push_back(LowerLayers(checked, placement.classes()[i], memory.classes()[i]));
  }
  plan.memory = memory.ranks();
  if (const std::optional<Price> price = PriceOf(checked, placement, memory).price) {
    plan.prices = {price->decode, price->prefill};
  }
  plan.execution_fingerprint = ExecutionFingerprint(plan);
  return PlanDraft(std::move(plan));
}

}  // namespace meshseal::compiler
