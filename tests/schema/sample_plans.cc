#include "tests/schema/sample_plans.h"

#include <utility>

#include "schema/fingerprint.h"

namespace meshseal::samples {

using support::PlanNumbers;

PlanNumbers Base() {
  PlanNumbers n;
  n.dp = 2;
  n.pp = 2;
  n.tp = 2;
  n.ep = 3;
  n.layers = 5;
  n.intermediate = 13;
  n.residual = Residual::kAdd;
  return n;
}

PlanNumbers Small() { return {}; }

PlanNumbers LastLayerDense() {
  PlanNumbers n = Base();
  n.moe_layers = {{0, 4}};
  return n;
}

PlanNumbers TwoClasses() {
  PlanNumbers n = Base();
  n.moe_layers = {{0, 1}, {2, 3}};
  n.second_layers = {{1, 2}, {4, 5}};
  n.second_experts = 11;
  return n;
}

PlanNumbers Gathering() {
  PlanNumbers n;
  n.ep = 4;
  n.dense_tp = 2;
  n.residual = Residual::kAdd;
  return n;
}

PlanNumbers Shared() {
  PlanNumbers n;
  n.tp = 2;
  n.ep = 2;
  n.shared_width = 10;
  n.shared_gate = SharedGate::kSigmoid;
  return n;
}

PlanNumbers Owner() {
  PlanNumbers n = Shared();
  n.shared_placement = SharedPlacement::kOwner;
  return n;
}

PlanNumbers Copies() {
  PlanNumbers n;
  n.ep = 3;
  n.copies = 4;
  return n;
}

PlanNumbers Balanced() {
  PlanNumbers n;
  n.ep = 2;
  n.load = {5, 1, 7, 2, 8, 3, 3, 1};
  return n;
}

PlanNumbers Table() {
  PlanNumbers n;
  n.router.vocabulary = 100;
  return n;
}

PlanNumbers Given() {
  PlanNumbers n;
  n.ep = 2;
  n.router.scoring = Scoring::kPrecomputed;
  n.router.renormalize = Renormalize::kNone;
  return n;
}

PlanNumbers Exact() {
  PlanNumbers n;
  n.tp = 2;
  n.biases = true;
  n.reduction = Reduction::kExact;
  n.segments = 4;
  return n;
}

PlanNumbers ExactShared() {
  PlanNumbers n;
  n.tp = n.ep = 2;
  n.shared_width = 10;
  n.reduction = Reduction::kExact;
  n.segments = 4;
  n.shared_segments = 8;
  n.residual = Residual::kAdd;
  return n;
}

PlanNumbers Quantised() {
  PlanNumbers n;
  n.tp = 3;
  n.column_unit = 4;
  n.weight_dtype = DType::kF8E4M3;
  return n;
}

PlanNumbers Fused() {
  PlanNumbers n = Quantised();
  n.fused = true;
  return n;
}

PlanNumbers Mxfp4() {
  PlanNumbers n;
  n.hidden = 32;
  n.intermediate = 64;
  n.weight_dtype = DType::kMxfp4;
  return n;
}

PlanNumbers Blocks() {
  PlanNumbers n;
  n.hidden = 32;
  n.intermediate = 96;
  n.weight_dtype = DType::kQ8_0;
  n.weight_source = WeightSource::kGguf;
  return n;
}

PlanNumbers WideTiles() {
  PlanNumbers n = Fused();
  n.intermediate = 20;
  n.tp = 2;
  n.column_unit = 8;
  return n;
}

PlanNumbers Full() {
  PlanNumbers n = Base();
  n.attention = {12, 2, 8};
  n.kv_heads = KvHeads::kReplicate;
  n.other_weights = {1000, 777, 500};
  n.repack = Repack::kByTensor;
  n.repacked_bytes = 11;
  n.capture_bytes = 13;
  n.communicator_bytes = 17;
  n.headroom_bytes = 19;
  n.per_session_bytes = 23;
  n.priced = true;
  return n;
}

PlanNumbers Huge() {
  PlanNumbers n;
  n.hidden = 1u << 16;
  n.prefill_tokens = n.prefill_chunk = 1u << 15;
  return n;
}

namespace {

// Two hosts with two pinned devices each, and what else the builder does not write.
Plan TwoHosts() {
  PlanNumbers n;
  n.ep = 4;
  n.transport = Transport::kNccl;
  n.weight_source = WeightSource::kSynthetic;
  n.ignored_tensors = {"layers.{layer}.attention", "lm_head"};
  Plan plan = support::BuildPlan(n);
  plan.mesh.emulated = false;
  plan.mesh.transport_version_min = "2.9";
  plan.mesh.transport_version_max = "2.28.9";
  DeviceKind& kind = plan.mesh.device_kinds[0];
  kind.memory_kind = MemoryKind::kDiscrete;
  kind.compute_capability = 90;
  kind.shared_memory = 232448;
  kind.ecc = Ecc::kOn;
  kind.peer_access = true;
  kind.fabric = true;
  plan.mesh.nodes = {{"node0", 0, 2, 0, {"GPU-0", "GPU-1"}}, {"node1", 0, 2, 1, {"GPU-2", "GPU-3"}}};
  plan.mesh.rank_slots = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
  plan.limits.decode_buckets = {1, 8, 64};
  plan.weight_seed = 7;
  return plan;
}

// Rotated weights and operands.
Plan Rotated() {
  PlanNumbers n;
  n.gate_up_basis = n.down_basis = Basis::kRotated;
  Plan plan = support::BuildPlan(n);
  for (TensorClass& tensor : plan.layer_classes[0].tensors)
    tensor.rotation = tensor.role == TensorRole::kRouter ? 0 : 2;
  return plan;
}

Plan RoundRobin() {
  PlanNumbers n;
  n.ep = 2;
  Plan plan = support::BuildPlan(n);
  plan.expert_placement = ExpertPlacement::kRoundRobin;
  std::vector<ExpertShard>& shards = plan.layer_classes[0].expert_shards;
  for (uint32_t expert = 0; expert < shards.size(); ++expert) shards[expert] = {expert % 2, expert / 2};
  return plan;
}

Plan WideIndices() {
  Plan plan = support::BuildPlan(Huge());
  plan.layer_classes[0].programs[1].index_bits = 64;
  return plan;
}

}  // namespace

std::vector<SamplePlan> ValidPlans() {
  std::vector<SamplePlan> plans;
  const auto add_plan = [&plans](const char* name, Plan plan) {
    plan.execution_fingerprint = ExecutionFingerprint(plan);
    plans.push_back({name, std::move(plan)});
  };
  const auto add = [&add_plan](const char* name, const PlanNumbers& n) { add_plan(name, support::BuildPlan(n)); };
  add("base", Base());
  add("small", Small());
  add("last layer dense", LastLayerDense());
  add("two classes", TwoClasses());
  add("gathering", Gathering());
  add("shared", Shared());
  add("owner", Owner());
  add("copies", Copies());
  add("balanced", Balanced());
  add("table", Table());
  add("given", Given());
  add("exact", Exact());
  add("exact shared", ExactShared());
  PlanNumbers one_rank = ExactShared();
  one_rank.tp = one_rank.ep = 1;
  one_rank.segments = 6;
  one_rank.shared_width = 24;
  one_rank.shared_placement = SharedPlacement::kOwner;
  add("exact on one rank", one_rank);
  add("quantised", Quantised());
  add("fused", Fused());
  add("mxfp4", Mxfp4());
  add("blocks", Blocks());
  add("wide tiles", WideTiles());
  add("full", Full());
  add_plan("two hosts", TwoHosts());
  add_plan("wide indices", WideIndices());
  add_plan("rotated", Rotated());
  add_plan("round robin", RoundRobin());

  PlanNumbers n = Base();
  n.router.weight_applied = WeightPoint::kActivation;
  add("weighted activation", n);
  n = Base();
  n.router.weight_applied = WeightPoint::kInput;
  n.top_k = 1;
  add("weighted input", n);
  n = Base();
  n.router.groups = {4, 2, GroupScore::kTop2Sum};
  add("groups", n);
  n = Base();
  n.router.scoring = Scoring::kSparsemixer;
  n.router.epsilon = 0.01f;
  n.router.renormalize = Renormalize::kNone;
  add("sparsemixer", n);
  n = Base();
  n.router_bias = n.selection_bias = n.biases = true;
  n.router.scoring = Scoring::kSigmoid;
  n.router.renormalize = Renormalize::kSumPlus;
  n.router.guard = 1e-20f;
  add("all biases", n);
  n = Owner();
  n.activation = {ActivationKind::kRelu2, 0, 0};
  n.biases = true;
  n.weight_dtype = DType::kF8E4M3;
  n.column_unit = 4;
  add("relu2", n);
  n = Shared();
  n.activation = {ActivationKind::kSwiGluOai, 1.702f, 7};
  n.fused = n.biases = true;
  n.weight_dtype = DType::kNvfp4;
  n.intermediate = n.hidden = n.shared_width = 64;
  n.column_unit = 16;
  add("nvfp4", n);
  n = Gathering();
  n.dense_tp = 1;
  n.decode_tokens = 7;
  n.shared_width = 8;
  n.reduction = Reduction::kExact;
  add("exact gathering", n);
  n = Small();
  n.ep = 4;
  n.hidden = 1 << 12;
  n.prefill_tokens = n.prefill_chunk = 100;
  add("exchanged prefill", n);
  n = Gathering();
  n.reduction = Reduction::kFast;
  add("fast gathering", n);
  n = Copies();
  n.experts = 2;  // fewer than ranks: one has nothing but a copy
  n.copies = 3;
  n.load = {5, 7};
  n.repack = Repack::kByExpert;
  add("balanced copies", n);
  n = Blocks();
  n.down_basis = n.gate_up_basis = Basis::kQ8;
  n.tp = 3;
  n.column_unit = 32;
  add("q8 blocks", n);
  n = Quantised();
  n.scale_block = 0;
  n.column_unit = 1;
  add("one scale", n);
  n = Shared();
  n.ep = 1;
  add("shared on one ep coordinate", n);
  n = Full();
  n.attention = {12, 6, 8};
  add("as many KV heads as dense ranks", n);
  Plan islands = support::BuildPlan(Full());
  islands.mesh.nodes.push_back({"node1", 0, 1, 1, {}});
  islands.mesh.island_links.push_back({20'000'000'000, 1000});
  islands.mesh.between_islands = {1'000'000'000, 5000};
  add_plan("two islands with rates", std::move(islands));
  n = PlanNumbers();
  n.router_name = "router";
  add("a name for one layer", n);
  n = WideTiles();
  n.intermediate = 24;
  Plan tiles = support::BuildPlan(n);
  for (TensorClass& tensor : tiles.layer_classes[0].tensors) {
    for (SideTensor& side : tensor.sides) {
      if (side.of == ScaleOf::kHalf) side.of = ScaleOf::kFused;
    }
  }
  add_plan("tiles of fused rows", std::move(tiles));
  return plans;
}

}  // namespace meshseal::samples
