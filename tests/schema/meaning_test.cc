// The meaning gate: each rule refuses the plans that break it, by name, although they are sealed like any other.
#include "schema/meaning/meaning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schema/fingerprint.h"
#include "schema/meaning/rules.h"
#include "schema/plan_codec.h"
#include "schema/reason.h"
#include "schema/seal.h"
#include "schema/sealed_plan.h"
#include "tests/schema/sample_plans.h"
#include "tests/support/plan_builder.h"

namespace meshseal {
namespace {

using samples::Balanced;
using samples::Base;
using samples::Blocks;
using samples::Copies;
using samples::Exact;
using samples::ExactShared;
using samples::Full;
using samples::Fused;
using samples::Gathering;
using samples::Given;
using samples::Huge;
using samples::LastLayerDense;
using samples::Mxfp4;
using samples::Owner;
using samples::Quantised;
using samples::Shared;
using samples::Small;
using samples::Table;
using samples::TwoClasses;
using samples::WideTiles;
using support::PlanNumbers;

// On three ranks gathering brings 2 N bytes, exchanging 4/3 N: 1 MiB less of 3/2 MiB, which are 384 tokens.
PlanNumbers JustExchanged() {
  PlanNumbers n;
  n.ep = 3;
  n.hidden = 1024;
  n.decode_tokens = 383;
  n.prefill_tokens = n.prefill_chunk = 384;
  return n;
}

PlanNumbers WellExchanged() {
  PlanNumbers n = JustExchanged();
  n.decode_tokens = 64;
  return n;
}

PlanNumbers LargeOnTwo() {
  PlanNumbers n = JustExchanged();
  n.ep = 2;
  return n;
}

PlanNumbers TooWide() {
  PlanNumbers n;
  n.hidden = (1u << 20) + 1;
  return n;
}

PlanNumbers TooDeep() {
  PlanNumbers n;
  n.layers = (1u << 16) + 1;
  return n;
}

// K and V of more than 64 bits.
PlanNumbers HugeHeads() {
  PlanNumbers n;
  n.hidden = 1u << 20;
  n.layers = 1u << 16;
  n.experts = n.ep = 128;
  n.attention = {128, 64, 1u << 20};
  n.kv_heads = KvHeads::kReplicate;
  return n;
}

PlanNumbers HalfBlocks() {
  PlanNumbers n = Blocks();
  n.hidden = 48;
  return n;
}

PlanNumbers HalfScaleBlocks() {
  PlanNumbers n = Mxfp4();
  n.hidden = 48;
  return n;
}

PlanNumbers CutBlocks() {
  PlanNumbers n = Blocks();
  n.tp = 2;
  return n;
}

PlanNumbers CutTiles() {
  PlanNumbers n = Quantised();
  n.column_unit = 1;
  n.tp = 2;
  return n;
}

PlanNumbers CutSharedTiles() {
  PlanNumbers n = Quantised();
  n.tp = 1;
  n.ep = 2;
  n.shared_width = 12;
  n.column_unit = 1;
  return n;
}

// Seals without asking the gates, as a forger with a hash function would; the fingerprint is made to fit.
absl::Status OpenForged(Plan plan, bool keep_fingerprint = false) {
  if (!keep_fingerprint) plan.execution_fingerprint = ExecutionFingerprint(plan);
  const std::string file = SealPayload(EncodePlan(plan), PayloadType::kPlan, 0, StreamOf("test"));
  Policy policy;
  policy.allow_unsigned_hosts = true;
  return SealedPlan::Open(file, policy).status();
}

struct Mutant {
  const char* rule;
  const char* what;
  const char* text;
  PlanNumbers (*base)();
  std::function<void(Plan&)> change;
  bool alone;  // no other rule refuses it
};

Plan Mutated(const Mutant& mutant) {
  Plan plan = support::BuildPlan(mutant.base());
  mutant.change(plan);
  return plan;
}

bool KeepsFingerprint(const Mutant& mutant) { return std::string(mutant.rule) == "fingerprint-holds"; }

std::string TextOf(const Mutant& mutant, const Plan& plan) {
  if (!KeepsFingerprint(mutant)) return mutant.text;
  return absl::StrCat("sealed fingerprint ", HexOf(plan.execution_fingerprint), ", the plan's is ",
                      HexOf(ExecutionFingerprint(plan)));
}

Program& DecodeOf(Plan& plan) { return plan.layer_classes[0].programs[0]; }
Program& PrefillOf(Plan& plan) { return plan.layer_classes[0].programs[1]; }

Step& StepOf(Program& program, StepKind kind) {
  for (Step& step : program.steps) {
    if (step.kind == kind) return step;
  }
  return program.steps.front();
}

TensorClass& FusedOf(Plan& plan) {
  for (TensorClass& tensor : plan.layer_classes[0].tensors) {
    if (tensor.role == TensorRole::kGateUp) return tensor;
  }
  return plan.layer_classes[0].tensors.front();
}

std::vector<Mutant> Mutants() {
  return {
      {"terms-are-known", "scoring 9", "router.scoring has the value 9, which is not in its table", Base,
       [](Plan& p) { p.layer_classes[0].router.scoring = static_cast<Scoring>(9); }, false},
      {"terms-are-known", "reduction 0", "reduction has the value 0, which is not in its table", Base,
       [](Plan& p) { p.reduction = Reduction::kInvalid; }, false},
      {"terms-are-known", "numerics 7", "numerics contract has the value 7, which is not in its table", Base,
       [](Plan& p) { p.numerics = static_cast<Numerics>(7); }, false},
      {"terms-are-known", "dtype 200", "a tensor's dtype has the value 200, which is not in its table", Base,
       [](Plan& p) { p.layer_classes[0].tensors[1].dtype = static_cast<DType>(200); }, false},
      {"terms-are-known", "no axis", "a tensor's axis has the value 0, which is not in its table", Base,
       [](Plan& p) { p.layer_classes[0].tensors[1].shape[0] = ShapeAxis::kInvalid; }, false},
      {"terms-are-known", "layout 3", "a tensor's layout has the value 3, which is not in its table", Base,
       [](Plan& p) { p.layer_classes[0].tensors[1].layout = static_cast<GateUpLayout>(3); }, false},
      {"terms-are-known", "a scale of 3", "a scale's rows has the value 3, which is not in its table", Quantised,
       [](Plan& p) { p.layer_classes[0].tensors[1].sides[0].of = static_cast<ScaleOf>(3); }, false},
      {"terms-are-known", "a scale that is not applied",
       "a scale's application has the value 0, which is not in its table", Quantised,
       [](Plan& p) { p.layer_classes[0].tensors[1].sides[0].applies = ScaleApplies::kInvalid; }, false},
      {"terms-are-known", "step 77", "a step's kind has the value 77, which is not in its table", Base,
       [](Plan& p) { DecodeOf(p).steps[2].kind = static_cast<StepKind>(77); }, false},
      {"terms-are-known", "placement 5", "a value's tp placement has the value 5, which is not in its table", Base,
       [](Plan& p) { DecodeOf(p).values[2].tp = static_cast<AxisPlacement>(5); }, false},
      {"terms-are-known", "op 3", "a collective's op has the value 3, which is not in its table", Base,
       [](Plan& p) { StepOf(DecodeOf(p), StepKind::kCollective).collectives[0].op = static_cast<CollectiveOp>(3); },
       false},
      {"terms-are-known", "a sum that is made in no way",
       "a program's reduce algorithm has the value 0, which is not in its table", Base,
       [](Plan& p) { PrefillOf(p).reduce_algorithm = ReduceAlgorithm::kInvalid; }, false},
      {"terms-are-known", "no word of ECC", "a device's ECC has the value 0, which is not in its table", Base,
       [](Plan& p) { p.mesh.device_kinds[0].ecc = Ecc::kInvalid; }, false},
      {"terms-are-known", "no repacking said", "repack has the value 0, which is not in its table", Base,
       [](Plan& p) { p.limits.repack = Repack::kInvalid; }, false},
      {"terms-are-known", "no choice of copies", "choice of copies has the value 0, which is not in its table", Base,
       [](Plan& p) { p.copy_choice = CopyChoice::kInvalid; }, true},
      {"names-are-text", "a name with a line feed", "model name has a control character", Base,
       [](Plan& p) { p.model_name = "two\nlines"; }, true},
      {"names-are-text", "a name that is not UTF-8", "a node's name is not UTF-8", Base,
       [](Plan& p) { p.mesh.nodes[0].name = "\xff"; }, false},
      {"names-are-text", "no name", "mesh name is empty", Base, [](Plan& p) { p.mesh.name.clear(); }, false},
      {"names-are-text", "a name of 2 KiB", "model family has 2048 bytes, at most 1024 are read", Base,
       [](Plan& p) { p.model_family = std::string(2048, 'x'); }, false},
      {"names-are-text", "a side without name", "a side tensor's name is empty", Quantised,
       [](Plan& p) { p.layer_classes[0].tensors[1].sides[0].name.clear(); }, false},
      {"names-are-text", "a version with a tab", "a transport's version has a control character", Base,
       [](Plan& p) { p.mesh.transport_version_min = "2.1\t"; }, false},
      {"names-are-text", "a device without identity", "a device's identity is empty", Base,
       [](Plan& p) { p.mesh.nodes[0].identity = {""}; }, false},
      {"origins-exist", "a document too many", "a step comes from document 99, the plan names 3", Base,
       [](Plan& p) { DecodeOf(p).steps[0].origin.source = 99; }, true},
      {"origins-exist", "line 0", "a step comes from line 0, lines start at 1", Base,
       [](Plan& p) { PrefillOf(p).steps[1].origin.line = 0; }, false},
      {"origins-exist", "a load profile of contiguous experts",
       "the plan names 4 documents, with experts contiguous it comes from 3", Base,
       [](Plan& p) {
         p.sources.push_back({"load.json", {}});
       },
       false},
      {"stream-is-deployment", "another deployment", "the seal's stream is not that of deployment 'another'", Base,
       [](Plan& p) { p.deployment_name = "another"; }, true},
      {"degrees-make-world", "one rank too few", "the degrees make 24 ranks, 23 have a slot", Base,
       [](Plan& p) { p.mesh.rank_slots.pop_back(); }, false},
      {"degrees-make-world", "one rank too few, with its memory", "the degrees make 24 ranks, 23 have a slot", Base,
       [](Plan& p) {
         p.mesh.rank_slots.pop_back();
         p.memory.pop_back();
       },
       true},
      {"degrees-make-world", "ep 0", "degrees dp=2 pp=2 tp=2 ep=0 make no world of 1 to 65536 ranks", Base,
       [](Plan& p) { p.degrees.ep = 0; }, false},
      {"degrees-make-world", "another world", "the degrees make 36 ranks, 24 have a slot", Base,
       [](Plan& p) { p.degrees.dp = 3; }, false},
      {"degrees-make-world", "dense tp that does not divide the group",
       "dense tp 4 does not divide the expert group of 6 ranks", Base, [](Plan& p) { p.degrees.dense_tp = 4; }, false},
      {"degrees-make-world", "dense tp 0", "dense tp 0 does not divide the expert group of 6 ranks", Base,
       [](Plan& p) { p.degrees.dense_tp = 0; }, false},
      {"degrees-make-world", "more ranks than fit",
       "degrees dp=65536 pp=2 tp=2 ep=65536 make no world of 1 to 65536 ranks", Base,
       [](Plan& p) {
         p.degrees.dp = 65536;
         p.degrees.ep = 65536;
       },
       false},
      {"mesh-is-coherent", "a device without memory", "device kind 'host' has 0 bytes, 1099511627776 of them usable",
       Base, [](Plan& p) { p.mesh.device_kinds[0].memory_bytes = 0; }, false},
      {"mesh-is-coherent", "more usable than there is",
       "device kind 'host' has 1099511627776 bytes, 1099511627777 of them usable", Base,
       [](Plan& p) { p.mesh.device_kinds[0].usable_bytes += 1; }, true},
      {"mesh-is-coherent", "an island that does not exist", "node 'node0' is in island 1 of at most 1", Base,
       [](Plan& p) { p.mesh.nodes[0].island = 1; }, true},
      {"mesh-is-coherent", "a node without slots", "node 'node0' has no slot", Base,
       [](Plan& p) { p.mesh.nodes[0].slots = 0; }, false},
      {"mesh-is-coherent", "two devices for one slot", "node 'node0' pins 2 devices and has 1 slots", Base,
       [](Plan& p) {
         p.mesh.nodes[0].identity = {"GPU-0", "GPU-1"};
       },
       false},
      {"mesh-is-coherent", "a device on two nodes", "device 'GPU-0' is pinned twice", Base,
       [](Plan& p) {
         p.mesh.nodes[0].identity = {"GPU-0"};
         p.mesh.nodes.push_back({"node1", 0, 1, 0, {"GPU-0"}});
       },
       false},
      {"mesh-is-coherent", "a link between islands alone", "a link between islands, and none inside them", Base,
       [](Plan& p) {
         p.mesh.between_islands = {1, 0};
       },
       false},
      {"mesh-is-coherent", "a link too many", "2 links of islands, the nodes are in 1", Base,
       [](Plan& p) {
         p.mesh.island_links = {{1, 0}, {1, 0}};
       },
       false},
      {"mesh-is-coherent", "a link without bandwidth", "the link of island 0 carries nothing", Base,
       [](Plan& p) {
         p.mesh.island_links = {{0, 5}};
       },
       false},
      {"mesh-is-coherent", "a link between one island", "a link between islands, and there is one island", Base,
       [](Plan& p) {
         p.mesh.island_links = {{1, 0}};
         p.mesh.between_islands = {1, 0};
       },
       false},
      {"mesh-is-coherent", "islands that nothing joins", "the link between islands carries nothing", Base,
       [](Plan& p) {
         p.mesh.nodes.push_back({"node1", 0, 1, 1, {}});
         p.mesh.island_links = {{1, 0}, {1, 0}};
       },
       false},
      {"mesh-is-coherent", "versions that descend",
       "transport versions '2.28' to '2.9' are no ascending numbers with dots", Base,
       [](Plan& p) {
         p.mesh.transport_version_min = "2.28";
         p.mesh.transport_version_max = "2.9";
       },
       false},
      {"mesh-is-coherent", "a version in words",
       "transport versions '2.28' to 'latest' are no ascending numbers with dots", Base,
       [](Plan& p) {
         p.mesh.transport_version_min = "2.28";
         p.mesh.transport_version_max = "latest";
       },
       false},
      {"mesh-is-coherent", "a lowest version in words",
       "transport versions 'old' to '' are no ascending numbers with dots", Base,
       [](Plan& p) { p.mesh.transport_version_min = "old"; }, false},
      {"mesh-is-coherent", "a highest version in words",
       "transport versions '' to 'latest' are no ascending numbers with dots", Base,
       [](Plan& p) { p.mesh.transport_version_max = "latest"; }, false},
      {"mesh-is-coherent", "captured collectives of hosts", "transport inproc is said to be capturable, only nccl is",
       Base, [](Plan& p) { p.mesh.capturable = true; }, false},
      {"mesh-is-coherent", "a host with a compute capability",
       "device kind 'host' is a host's memory and says what a device is like", Base,
       [](Plan& p) { p.mesh.device_kinds[0].compute_capability = 90; }, false},
      {"mesh-is-coherent", "a host with shared memory",
       "device kind 'host' is a host's memory and says what a device is like", Base,
       [](Plan& p) { p.mesh.device_kinds[0].shared_memory = 8; }, false},
      {"mesh-is-coherent", "a host with ECC to look up",
       "device kind 'host' is a host's memory and says what a device is like", Base,
       [](Plan& p) { p.mesh.device_kinds[0].ecc = Ecc::kOff; }, false},
      {"mesh-is-coherent", "a host with peers", "device kind 'host' is a host's memory and says what a device is like",
       Base, [](Plan& p) { p.mesh.device_kinds[0].peer_access = true; }, false},
      {"mesh-is-coherent", "a host in a fabric", "device kind 'host' is a host's memory and says what a device is like",
       Base, [](Plan& p) { p.mesh.device_kinds[0].fabric = true; }, false},
      {"ranks-have-slots", "a slot that does not exist", "rank 1 sits on node 0 slot 9999, which does not exist", Base,
       [](Plan& p) { p.mesh.rank_slots[1].slot = 9999; }, false},
      {"ranks-have-slots", "a node that does not exist", "rank 1 sits on node 9999 slot 0, which does not exist", Base,
       [](Plan& p) { p.mesh.rank_slots[1].node = 9999; }, false},
      {"ranks-have-slots", "a device kind that does not exist", "node 'node0' is of device kind 7, there are 1", Base,
       [](Plan& p) { p.mesh.nodes[0].device_kind = 7; }, false},
      {"ranks-have-slots", "two ranks on a slot of a real mesh",
       "rank 1 shares node 0 slot 0 with another rank and the mesh is not emulated", Base,
       [](Plan& p) { p.mesh.emulated = false; }, true},
      {"stages-cover-layers", "an empty stage", "a pipeline stage ends at layer 0 and starts at 0", Base,
       [](Plan& p) { p.stage_ends[0] = 0; }, false},
      {"stages-cover-layers", "a lost layer", "the stages end at layer 4, the model has 5", Base,
       [](Plan& p) { p.stage_ends[1] = 4; }, false},
      {"stages-cover-layers", "a lost layer that is not MoE", "the stages end at layer 4, the model has 5",
       LastLayerDense, [](Plan& p) { p.stage_ends[1] = 4; }, true},
      {"stages-cover-layers", "a stage too few", "1 pipeline stages, pp is 2", Base,
       [](Plan& p) { p.stage_ends.pop_back(); }, false},
      {"limits-are-coherent", "buckets that do not ascend", "decode bucket 8 after 8, buckets ascend from 1", Base,
       [](Plan& p) {
         p.limits.decode_buckets = {8, 8, 64};
       },
       true},
      {"limits-are-coherent", "a last bucket that is too small", "the largest decode bucket is 1, decode_tokens is 64",
       Base, [](Plan& p) { p.limits.decode_buckets = {1}; }, false},
      {"limits-are-coherent", "a chunk above the prefill", "prefill_chunk 64, expected 1 to prefill_tokens 63", Base,
       [](Plan& p) { p.limits.prefill_tokens = 63; }, false},
      {"limits-are-coherent", "no session", "0 sessions, expected at least 1", Base,
       [](Plan& p) { p.limits.sessions = 0; }, false},
      {"limits-are-coherent", "ranks that bring less than all", "rank_decode_tokens 63, all ranks bring the same 64",
       Base, [](Plan& p) { p.limits.rank_decode_tokens = 63; }, false},
      {"limits-are-coherent", "ranks that bring too few",
       "rank_decode_tokens 31, 2 dense groups bring at most 64 in all", Gathering,
       [](Plan& p) { p.limits.rank_decode_tokens = 31; }, false},
      {"limits-are-coherent", "a rank that brings more than all",
       "rank_prefill_tokens 65, 2 dense groups bring at most 64 in all", Gathering,
       [](Plan& p) { p.limits.rank_prefill_tokens = 65; }, false},
      {"limits-are-coherent", "repacked weights that are used as stored",
       "8 bytes of repacked weights, which are used as stored", Base, [](Plan& p) { p.limits.repacked_bytes = 8; },
       false},
      {"heads-fit-dense-tp", "KV heads that do not divide the heads", "5 KV heads do not divide 12 heads", Base,
       [](Plan& p) {
         p.attention = {12, 5, 64};
       },
       true},
      {"heads-fit-dense-tp", "heads without size",
       "attention has 12 heads, 6 KV heads of 0: all three are above 0, or none", Base,
       [](Plan& p) {
         p.attention = {12, 6, 0};
       },
       false},
      {"heads-fit-dense-tp", "heads that dense tp does not divide", "dense tp 6 does not divide 8 heads", Base,
       [](Plan& p) {
         p.attention = {8, 2, 64};
       },
       false},
      {"heads-fit-dense-tp", "more dense ranks than KV heads", "dense tp 6 does not fit 3 KV heads that it may cut",
       Base,
       [](Plan& p) {
         p.attention = {12, 3, 64};
       },
       false},
      {"heads-fit-dense-tp", "KV heads that are not replicated whole",
       "dense tp 6 does not fit 4 KV heads that it may replicate", Base,
       [](Plan& p) {
         p.attention = {12, 4, 64};
         p.kv_heads = KvHeads::kReplicate;
       },
       false},
      {"layers-are-covered-once", "a layer outside the model", "layers [0,6) of a model with 5", Base,
       [](Plan& p) {
         p.layer_classes[0].layers = {{0, 6}};
       },
       false},
      {"layers-are-covered-once", "an empty range", "layers [2,2) of a model with 5", Base,
       [](Plan& p) {
         p.layer_classes[0].layers = {{2, 2}};
       },
       false},
      {"layers-are-covered-once", "ranges that touch", "layer range [3,5) touches the one before it", Base,
       [](Plan& p) {
         p.layer_classes[0].layers = {{0, 3}, {3, 5}};
       },
       true},
      {"layers-are-covered-once", "classes out of order", "layer class 1 is out of order", TwoClasses,
       [](Plan& p) { std::swap(p.layer_classes[0], p.layer_classes[1]); }, false},
      {"layers-are-covered-once", "a layer in two classes", "layer 2 is in two classes", TwoClasses,
       [](Plan& p) {
         p.layer_classes[1].layers = {{1, 3}};
       },
       false},
      {"layers-are-covered-once", "no layer class", "the plan has no MoE layer", Base,
       [](Plan& p) { p.layer_classes.clear(); }, false},
      {"layers-are-covered-once", "too many classes", "1025 layer classes, at most 1024 are read", Base,
       [](Plan& p) { p.layer_classes.resize(1025, p.layer_classes[0]); }, false},
      {"sizes-are-sane", "top-k above the experts", "top_k 9, expected 1 to 8", Base,
       [](Plan& p) { p.layer_classes[0].top_k = 9; }, false},
      {"sizes-are-sane", "top-k 0", "top_k 0, expected 1 to 8", Base, [](Plan& p) { p.layer_classes[0].top_k = 0; },
       false},
      {"sizes-are-sane", "hidden 0", "hidden 0, expected 1 to 1048576", Base, [](Plan& p) { p.hidden = 0; }, false},
      {"sizes-are-sane", "a model that is too wide", "hidden 1048577, expected 1 to 1048576", TooWide, [](Plan&) {},
       true},
      {"sizes-are-sane", "a model that is too deep", "layers 65537, expected 1 to 65536", TooDeep, [](Plan&) {}, true},
      {"sizes-are-sane", "a shared expert that is too wide", "shared width 1048577, expected 1 to 1048576", Shared,
       [](Plan& p) { p.layer_classes[0].shared_expert.width = (1u << 20) + 1; }, false},
      {"router-is-coherent", "a scale of 0", "layer 0: routed scale 0, expected a finite number above 0", Base,
       [](Plan& p) { p.layer_classes[0].router.scale = 0; }, true},
      {"router-is-coherent", "a scale that is NaN", "layer 0: routed scale nan, expected a finite number above 0", Base,
       [](Plan& p) { p.layer_classes[0].router.scale = std::numeric_limits<float>::quiet_NaN(); }, false},
      {"router-is-coherent", "an epsilon that nothing reads", "layer 0: epsilon 0.5, nothing reads it", Base,
       [](Plan& p) { p.layer_classes[0].router.epsilon = 0.5f; }, false},
      {"router-is-coherent", "an epsilon of minus 0", "layer 0: epsilon -0, nothing reads it", Base,
       [](Plan& p) { p.layer_classes[0].router.epsilon = -0.0f; }, false},
      {"router-is-coherent", "sparsemixer without epsilon", "layer 0: epsilon 0, expected a finite number above 0",
       Base,
       [](Plan& p) {
         p.layer_classes[0].router.scoring = Scoring::kSparsemixer;
         p.layer_classes[0].router.renormalize = Renormalize::kNone;
       },
       false},
      {"router-is-coherent", "an infinite guard", "layer 0: guard inf, expected a finite number above 0", Base,
       [](Plan& p) {
         p.layer_classes[0].router.renormalize = Renormalize::kSumPlus;
         p.layer_classes[0].router.guard = std::numeric_limits<float>::infinity();
       },
       false},
      {"router-is-coherent", "a guard that nothing reads", "layer 0: guard 0.5, nothing reads it", Base,
       [](Plan& p) { p.layer_classes[0].router.guard = 0.5f; }, false},
      {"router-is-coherent", "groups without count", "layer 0: 0 groups with a keep of 1 and a score of invalid", Base,
       [](Plan& p) { p.layer_classes[0].router.groups.keep = 1; }, false},
      {"router-is-coherent", "groups without score", "layer 0: groups without a score", Base,
       [](Plan& p) {
         p.layer_classes[0].router.groups = {4, 2, GroupScore::kInvalid};
       },
       false},
      {"router-is-coherent", "groups that do not divide the experts", "layer 0: 3 groups of 8 experts", Base,
       [](Plan& p) {
         p.layer_classes[0].router.groups = {3, 2, GroupScore::kMax};
       },
       false},
      {"router-is-coherent", "more groups kept than there are", "layer 0: 5 of 4 groups are kept", Base,
       [](Plan& p) {
         p.layer_classes[0].router.groups = {4, 5, GroupScore::kMax};
       },
       false},
      {"router-is-coherent", "groups with too few experts",
       "layer 0: 1 groups of 1 experts are kept, a token selects 2", Base,
       [](Plan& p) {
         p.layer_classes[0].router.groups = {8, 1, GroupScore::kMax};
       },
       false},
      {"router-is-coherent", "two best of a group of one", "layer 0: groups of 1 expert are scored by the sum of 2",
       Base,
       [](Plan& p) {
         p.layer_classes[0].router.groups = {8, 2, GroupScore::kTop2Sum};
       },
       false},
      {"router-is-coherent", "groups after the top-k",
       "layer 0: scoring softmax topk_then_score with a selection bias, groups or a token table", Base,
       [](Plan& p) {
         p.layer_classes[0].router.groups = {4, 2, GroupScore::kMax};
         p.layer_classes[0].router.order = RouteOrder::kTopKThenScore;
       },
       false},
      {"router-is-coherent", "a renormalised sparsemixer",
       "layer 0: scoring sparsemixer with score_then_topk and renormalize sum", Base,
       [](Plan& p) {
         p.layer_classes[0].router.scoring = Scoring::kSparsemixer;
         p.layer_classes[0].router.epsilon = 0.01f;
       },
       false},
      {"router-is-coherent", "a weight on an input that two experts read",
       "layer 0: the weight is applied on the input, which 2 experts read", Base,
       [](Plan& p) { p.layer_classes[0].router.weight_applied = WeightPoint::kInput; }, false},
      {"router-is-coherent", "a weight before a down bias",
       "layer 0: the weight is applied on the activation, and down adds a bias after it", Exact,
       [](Plan& p) { p.layer_classes[0].router.weight_applied = WeightPoint::kActivation; }, false},
      {"router-is-coherent", "a router product in q8", "layer 0: the router's product reads q8, expected f32 or bf16",
       Base, [](Plan& p) { p.layer_classes[0].router.input = Basis::kQ8; }, false},
      {"router-is-coherent", "a scaled routing from outside",
       "layer 0: a routed scale of 2 on a precomputed routing, which is taken as it is", Given,
       [](Plan& p) { p.layer_classes[0].router.scale = 2; }, true},
      {"router-is-coherent", "a vocabulary without table", "layer 0: a vocabulary of 5 without a token table", Base,
       [](Plan& p) { p.layer_classes[0].router.vocabulary = 5; }, false},
      {"router-is-coherent", "a table without vocabulary", "layer 0: a vocabulary of 0 with a token table", Table,
       [](Plan& p) { p.layer_classes[0].router.vocabulary = 0; }, false},
      {"activations-are-coherent", "a parameter that nothing reads", "layer 0: activation.alpha 1, nothing reads it",
       Base, [](Plan& p) { p.layer_classes[0].activation.alpha = 1; }, true},
      {"activations-are-coherent", "a parameter of minus 0", "layer 0: activation.limit -0, nothing reads it", Base,
       [](Plan& p) { p.layer_classes[0].activation.limit = -0.0f; }, false},
      {"activations-are-coherent", "a clamp without limit",
       "layer 0: activation.limit 0, expected a finite number above 0", Base,
       [](Plan& p) { p.layer_classes[0].activation.kind = ActivationKind::kSwiGluPreclamp; }, false},
      {"activations-are-coherent", "relu2 with a gate", "layer 0: the experts' relu2 with a gate tensor", Base,
       [](Plan& p) { p.layer_classes[0].activation.kind = ActivationKind::kRelu2; }, false},
      {"activations-are-coherent", "a shared relu2 with a gate",
       "layer 0: the shared expert's relu2 with a gate tensor", Shared,
       [](Plan& p) { p.layer_classes[0].shared_expert.activation.kind = ActivationKind::kRelu2; }, false},
      {"activations-are-coherent", "a shared limit that is not one",
       "layer 0: activation.limit -1, expected a finite number above 0", Shared,
       [](Plan& p) {
         p.layer_classes[0].shared_expert.activation = {ActivationKind::kSwiGluPreclamp, 0, -1};
       },
       false},
      {"shared-expert-is-coherent", "a gate of nothing",
       "layer 0: a shared expert of width 0 has a gate, an activation, a placement or parts", Base,
       [](Plan& p) { p.layer_classes[0].shared_expert.gate = SharedGate::kNone; }, true},
      {"shared-expert-is-coherent", "a parameter of minus 0 of nothing",
       "layer 0: a shared expert of width 0 has a gate, an activation, a placement or parts", Base,
       [](Plan& p) { p.layer_classes[0].shared_expert.activation.alpha = -0.0f; }, false},
      {"shared-expert-is-coherent", "no placement",
       "layer 0: a shared expert of width 10 without gate, activation or placement", Shared,
       [](Plan& p) { p.layer_classes[0].shared_expert.placement = SharedPlacement::kInvalid; }, false},
      {"tensors-are-complete", "no down tensor", "there is no tensor of role down", Base,
       [](Plan& p) { p.layer_classes[0].tensors.pop_back(); }, false},
      {"tensors-are-complete", "two up tensors",
       "tensor 'layers.{layer}.experts.{expert}.down' has role up after up, roles ascend", Base,
       [](Plan& p) { p.layer_classes[0].tensors[3].role = TensorRole::kUp; }, false},
      {"tensors-are-complete", "an axis too many",
       "tensor 'layers.{layer}.experts.{expert}.down' has other axes than role down reads", Base,
       [](Plan& p) { p.layer_classes[0].tensors[3].shape.push_back(ShapeAxis::kOne); }, false},
      {"tensors-are-complete", "experts last",
       "tensor 'layers.{layer}.experts.{expert}.down' has other axes than role down reads", Base,
       [](Plan& p) { p.layer_classes[0].tensors[3].shape.push_back(ShapeAxis::kExperts); }, false},
      {"tensors-are-complete", "one name for gate and up", "two roles read tensor 'layers.{layer}.experts.{expert}.up'",
       Base, [](Plan& p) { p.layer_classes[0].tensors[1].name = p.layer_classes[0].tensors[2].name; }, true},
      {"tensors-are-complete", "a name for all experts",
       "the name of tensor 'l.{layer}.gate' has {expert} 0 times, expected 1", Base,
       [](Plan& p) { p.layer_classes[0].tensors[1].name = "l.{layer}.gate"; }, false},
      {"tensors-are-complete", "a name for all layers", "the name of tensor 'router' has {layer} 0 times, expected 1",
       Base, [](Plan& p) { p.layer_classes[0].tensors[0].name = "router"; }, false},
      {"tensors-are-complete", "numbers side by side",
       "the numbers in the name of tensor 'gate.{layer}{expert}' run together", Base,
       [](Plan& p) { p.layer_classes[0].tensors[1].name = "gate.{layer}{expert}"; }, false},
      {"tensors-are-complete", "a weight of indices",
       "tensor 'layers.{layer}.experts.{expert}.up' has dtype i32, which role up does not read", Base,
       [](Plan& p) { p.layer_classes[0].tensors[2].dtype = DType::kI32; }, false},
      {"tensors-are-complete", "a router of blocks",
       "tensor 'layers.{layer}.router' has dtype q8_0, which role router does not read", Base,
       [](Plan& p) { p.layer_classes[0].tensors[0].dtype = DType::kQ8_0; }, false},
      {"tensors-are-complete", "a gate bias without an up bias", "there is no tensor of role up_bias", Exact,
       [](Plan& p) { p.layer_classes[0].tensors.erase(p.layer_classes[0].tensors.begin() + 5); }, false},
      {"tensors-are-complete", "an expert gate that no step reads",
       "tensor 'layers.{layer}.shared_gate' has role shared_expert_gate, which no step reads", Shared,
       [](Plan& p) { p.layer_classes[0].shared_expert.gate = SharedGate::kNone; }, false},
      {"tensors-are-complete", "two scales",
       "tensor 'layers.{layer}.experts.{expert}.gate' has side scale after scale, kinds ascend", Quantised,
       [](Plan& p) { p.layer_classes[0].tensors[1].sides.push_back(p.layer_classes[0].tensors[1].sides[0]); }, false},
      {"tensors-are-complete", "a scale for all experts",
       "the name of tensor 'l.{layer}.scale' has {expert} 0 times, expected 1", Quantised,
       [](Plan& p) { p.layer_classes[0].tensors[1].sides[0].name = "l.{layer}.scale"; }, false},
      {"layout-is-said", "a gate with a layout",
       "tensor 'layers.{layer}.experts.{expert}.gate' is not fused and has a layout", Base,
       [](Plan& p) { p.layer_classes[0].tensors[1].layout = GateUpLayout::kHalves; }, true},
      {"layout-is-said", "a fused tensor without one",
       "tensor 'layers.{layer}.experts.{expert}.gate_up' is fused and has no layout", Fused,
       [](Plan& p) { FusedOf(p).layout = GateUpLayout::kInvalid; }, false},
      {"scales-fit-dtypes", "float8 without scale",
       "tensor 'layers.{layer}.experts.{expert}.gate' is f8_e4m3 without scale", Quantised,
       [](Plan& p) { p.layer_classes[0].tensors[1].sides.clear(); }, false},
      {"scales-fit-dtypes", "scales of f32 weights", "tensor 'layers.{layer}.router' is f32, which has no input_scale",
       Base,
       [](Plan& p) {
         p.layer_classes[0].tensors[0].sides.push_back(
             {SideKind::kInputScale, DType::kF32, "l.{layer}.s", 0, 0, ScaleApplies::kMultiply, ScaleOf::kInvalid});
       },
       false},
      {"scales-fit-dtypes", "scales in f16",
       "tensor 'layers.{layer}.experts.{expert}.gate' is f8_e4m3, its scale is f16", Quantised,
       [](Plan& p) { p.layer_classes[0].tensors[1].sides[0].dtype = DType::kF16; }, false},
      {"scales-fit-dtypes", "blocks of rows alone",
       "tensor 'layers.{layer}.experts.{expert}.gate' is f8_e4m3, its scale has blocks of 4x0", Quantised,
       [](Plan& p) { p.layer_classes[0].tensors[1].sides[0].block_columns = 0; }, false},
      {"scales-fit-dtypes", "mxfp4 blocks of 16",
       "tensor 'layers.{layer}.experts.{expert}.gate' is mxfp4, its scale has blocks of 1x16", Mxfp4,
       [](Plan& p) { p.layer_classes[0].tensors[1].sides[0].block_columns = 16; }, false},
      {"scales-fit-dtypes", "rows of a half of what is not fused",
       "tensor 'layers.{layer}.experts.{expert}.gate', its scale has blocks of 4 rows of half", Quantised,
       [](Plan& p) { p.layer_classes[0].tensors[1].sides[0].of = ScaleOf::kHalf; }, true},
      {"scales-fit-dtypes", "rows of nobody",
       "tensor 'layers.{layer}.experts.{expert}.gate_up', its scale has blocks of 4 rows of nobody", Fused,
       [](Plan& p) { FusedOf(p).sides[0].of = ScaleOf::kInvalid; }, false},
      {"scales-fit-dtypes", "rows of half of what alternates",
       "tensor 'layers.{layer}.experts.{expert}.gate_up', its scale has blocks of 4 rows of half", Fused,
       [](Plan& p) { FusedOf(p).layout = GateUpLayout::kInterleaved; }, false},
      {"blocks-fill-rows", "rows that are no whole blocks",
       "tensor 'layers.{layer}.experts.{expert}.gate' has rows of 48, no whole number of blocks of 32", HalfBlocks,
       [](Plan&) {}, true},
      {"blocks-fill-rows", "rows that are no whole scale blocks",
       "tensor 'layers.{layer}.experts.{expert}.gate' has rows of 48, no whole number of scale blocks of 32",
       HalfScaleBlocks, [](Plan&) {}, false},
      {"blocks-fill-rows", "a rotation that does not fill rows",
       "tensor 'layers.{layer}.experts.{expert}.down' has rows of 13, no whole number of rotated blocks of 8", Base,
       [](Plan& p) { p.layer_classes[0].tensors[3].rotation = 8; }, false},
      {"blocks-fill-rows", "blocks of one that are rotated",
       "tensor 'layers.{layer}.experts.{expert}.down' is rotated in blocks of 1", Base,
       [](Plan& p) { p.layer_classes[0].tensors[3].rotation = 1; }, false},
      {"blocks-fill-rows", "a rotated bias", "tensor 'layers.{layer}.experts.{expert}.up_bias' is a vector and rotated",
       Exact, [](Plan& p) { p.layer_classes[0].tensors[5].rotation = 4; }, false},
      {"blocks-fill-rows", "blocks across rows",
       "tensor 'layers.{layer}.experts.{expert}.gate' has blocks along intermediate, its product contracts over hidden",
       Blocks,
       [](Plan& p) { std::swap(p.layer_classes[0].tensors[1].shape[0], p.layer_classes[0].tensors[1].shape[1]); },
       false},
      {"basis-fits-weights", "rotated operands of weights that are not",
       "tensor 'layers.{layer}.experts.{expert}.gate' is not rotated, what it is multiplied with is rotated", Base,
       [](Plan& p) { p.layer_classes[0].gate_up_basis = Basis::kRotated; }, true},
      {"basis-fits-weights", "rotated weights of operands that are not",
       "tensor 'layers.{layer}.experts.{expert}.gate' is rotated, what it is multiplied with is f32", Base,
       [](Plan& p) { p.layer_classes[0].tensors[1].rotation = 4; }, false},
      {"basis-fits-weights", "a rotated router",
       "tensor 'layers.{layer}.router' is rotated, and nothing rotates what it is multiplied with", Base,
       [](Plan& p) { p.layer_classes[0].tensors[0].rotation = 4; }, false},
      {"basis-fits-weights", "a rotated shared expert",
       "tensor 'layers.{layer}.shared.down' is rotated, and nothing rotates what it is multiplied with", Shared,
       [](Plan& p) {
         for (TensorClass& tensor : p.layer_classes[0].tensors) {
           if (tensor.role == TensorRole::kSharedDown) tensor.rotation = 2;
         }
       },
       false},
      {"basis-fits-weights", "half a q8 block",
       "tensor 'layers.{layer}.experts.{expert}.down' has rows of 13, no whole number of q8 blocks of 32", Base,
       [](Plan& p) { p.layer_classes[0].down_basis = Basis::kQ8; }, false},
      {"source-holds-weights", "a seed of files", "seed 7 of safetensors weights", Base,
       [](Plan& p) { p.weight_seed = 7; }, true},
      {"source-holds-weights", "a digest list of synthetic weights",
       "digest list 0100000000000000000000000000000000000000000000000000000000000000 of weights without files", Base,
       [](Plan& p) {
         p.weight_source = WeightSource::kSynthetic;
         p.weights_digest[0] = 1;
       },
       true},
      {"source-holds-weights", "q8_0 in safetensors",
       "tensor 'layers.{layer}.experts.{expert}.gate' is q8_0, which safetensors files cannot hold", Blocks,
       [](Plan& p) { p.weight_source = WeightSource::kSafetensors; }, false},
      {"experts-are-owned-once", "an expert without owner", "7 experts have an owner, the layers have 8", Base,
       [](Plan& p) { p.layer_classes[0].expert_shards.pop_back(); }, false},
      {"experts-are-owned-once", "an owner outside ep", "expert 7 is owned by ep 3, ep is 3", Base,
       [](Plan& p) { p.layer_classes[0].expert_shards[7].owner = 3; }, false},
      {"experts-are-owned-once", "a local number twice", "expert 1 is number 0 of ep 0, the next one is 1", Base,
       [](Plan& p) { p.layer_classes[0].expert_shards[1].local = 0; }, true},
      {"experts-are-owned-once", "a rank without experts", "ep 1 owns no expert", Base,
       [](Plan& p) {
         uint32_t next = 0;
         for (ExpertShard& shard : p.layer_classes[0].expert_shards) shard = {0, next++};
       },
       false},
      {"copies-are-apart", "an expert that does not exist", "a copy of expert 8 on ep 1, which does not exist", Copies,
       [](Plan& p) { p.layer_classes[0].expert_copies[0].expert = 8; }, false},
      {"copies-are-apart", "an owner outside ep", "a copy of expert 2 on ep 3, which does not exist", Copies,
       [](Plan& p) { p.layer_classes[0].expert_copies[2].owner = 3; }, false},
      {"copies-are-apart", "copies that do not ascend", "a copy on ep 1 after one on ep 2, copies ascend", Copies,
       [](Plan& p) { std::swap(p.layer_classes[0].expert_copies[2], p.layer_classes[0].expert_copies[3]); }, false},
      {"copies-are-apart", "a local number that is taken", "a copy of expert 0 is number 2 of ep 1, the next one is 3",
       Copies, [](Plan& p) { p.layer_classes[0].expert_copies[0].local = 2; }, true},
      {"copies-are-apart", "a copy beside its expert", "ep 1 holds expert 4 twice", Copies,
       [](Plan& p) { p.layer_classes[0].expert_copies[0].expert = 4; }, true},
      {"copies-are-apart", "two copies on a rank", "ep 1 holds expert 0 twice", Copies,
       [](Plan& p) { p.layer_classes[0].expert_copies[1].expert = p.layer_classes[0].expert_copies[0].expert; }, false},
      {"placement-is-as-named", "contiguous experts called round robin",
       "expert 1 lies on ep 0, round robin puts it on 1", Base,
       [](Plan& p) { p.expert_placement = ExpertPlacement::kRoundRobin; }, true},
      {"placement-is-as-named", "experts that are not contiguous",
       "expert 3 lies on ep 0, contiguous experts are past ep 2", Base,
       [](Plan& p) {
         for (uint32_t e = 0; e < 8; ++e) p.layer_classes[0].expert_shards[e] = {e % 3, e / 3};
       },
       true},
      {"load-is-balanced", "a load of contiguous experts", "a measured load of experts that are not balanced", Base,
       [](Plan& p) { p.layer_classes[0].load.slots = {1, 1, 1, 1, 1, 1, 1, 1}; }, false},
      {"load-is-balanced", "no load of balanced experts", "7 experts have a measured load, the layers have 8", Balanced,
       [](Plan& p) { p.layer_classes[0].load.slots.pop_back(); }, false},
      {"load-is-balanced", "a busiest rank that is busier", "the busiest rank as placed has 16 slots, derived are 15",
       Balanced, [](Plan& p) { p.layer_classes[0].load.busiest += 1; }, true},
      {"load-is-balanced", "contiguous experts that are less busy",
       "the busiest rank of contiguous experts has 14 slots, derived are 15", Balanced,
       [](Plan& p) { p.layer_classes[0].load.busiest_contiguous -= 1; }, false},
      {"load-is-balanced", "a load of more than 64 bits",
       "the busiest rank of contiguous experts has 15 slots, derived are more than 64 bits hold", Balanced,
       [](Plan& p) { p.layer_classes[0].load.slots[0] = ~uint64_t{0}; }, false},
      {"load-is-balanced", "busier than contiguous experts",
       "the busiest rank has 20 slots, with contiguous experts it had 12", Balanced,
       [](Plan& p) {
         std::swap(p.layer_classes[0].expert_shards[3], p.layer_classes[0].expert_shards[4]);
         p.layer_classes[0].load.slots = {9, 1, 1, 1, 9, 1, 1, 1};
         p.layer_classes[0].load.busiest_contiguous = 12;
         p.layer_classes[0].load.busiest = 20;
       },
       false},
      {"columns-are-owned-once", "segments that miss a column",
       "the column segments end at 12, the intermediate size is 13", Base,
       [](Plan& p) { p.layer_classes[0].segment_ends.back() = 12; }, false},
      {"columns-are-owned-once", "segments that do not ascend", "a column segment ends at 7 and starts at 7", Base,
       [](Plan& p) {
         p.layer_classes[0].segment_ends = {7, 7, 13};
       },
       false},
      {"columns-are-owned-once", "an empty segment of the only rank", "a column segment ends at 6 and starts at 6",
       Small,
       [](Plan& p) {
         p.layer_classes[0].segment_ends = {6, 6, 12};
         p.layer_classes[0].tp_segment_ends = {3};
       },
       true},
      {"columns-are-owned-once", "a tp rank without a segment", "a tp rank owns no column segment", Base,
       [](Plan& p) {
         p.layer_classes[0].tp_segment_ends = {2, 2};
       },
       false},
      {"columns-are-owned-once", "a segment that does not exist", "tp ranks own 3 column segments, there are 2", Base,
       [](Plan& p) {
         p.layer_classes[0].tp_segment_ends = {1, 3};
       },
       false},
      {"columns-are-owned-once", "a tp rank too few", "1 tp ranks own columns, tp is 2", Base,
       [](Plan& p) { p.layer_classes[0].tp_segment_ends = {2}; }, false},
      {"columns-are-owned-once", "a shared part too few", "3 ranks own shared columns, expected 4", Shared,
       [](Plan& p) {
         p.layer_classes[0].shared_expert.part_ends.erase(p.layer_classes[0].shared_expert.part_ends.begin());
       },
       false},
      {"columns-are-owned-once", "a rank without shared columns", "a shared part ends at 3 and starts at 3", Shared,
       [](Plan& p) { p.layer_classes[0].shared_expert.part_ends[1] = p.layer_classes[0].shared_expert.part_ends[0]; },
       false},
      {"columns-are-owned-once", "shared parts that miss a column", "the shared parts end at 9, the shared width is 10",
       Shared, [](Plan& p) { p.layer_classes[0].shared_expert.part_ends.back() = 9; }, false},
      {"columns-are-owned-once", "shared segments that miss a column",
       "the shared segments end at 9, the shared width is 10", Shared,
       [](Plan& p) { p.layer_classes[0].shared_expert.segment_ends.back() = 9; }, false},
      {"columns-are-owned-once", "shared segments that do not ascend", "a shared segment ends at 2 and starts at 2",
       ExactShared, [](Plan& p) { p.layer_classes[0].shared_expert.segment_ends[1] = 2; }, false},
      {"columns-are-owned-once", "a shared part inside a segment", "a shared part ends at 4, inside a segment",
       ExactShared, [](Plan& p) { p.layer_classes[0].shared_expert.segment_ends[1] = 3; }, false},
      {"columns-are-owned-once", "more shared segments than parts of an ordered sum",
       "5 shared segments of 4 parts, and the sum is ordered", Shared,
       [](Plan& p) {
         std::vector<uint32_t>& ends = p.layer_classes[0].shared_expert.segment_ends;
         ends.insert(ends.begin(), 1);
       },
       true},
      {"segments-keep-blocks", "a cut inside a block",
       "a cut of intermediate at 48, inside a block of 32 of tensor 'layers.{layer}.experts.{expert}.down'", CutBlocks,
       [](Plan&) {}, true},
      {"segments-keep-blocks", "a cut inside a scale tile",
       "a cut of intermediate at 6, inside a block of 4 of tensor 'layers.{layer}.experts.{expert}.gate'", CutTiles,
       [](Plan&) {}, false},
      {"segments-keep-blocks", "a shared cut inside a scale tile",
       "a cut of shared at 6, inside a block of 4 of tensor 'layers.{layer}.shared.gate'", CutSharedTiles, [](Plan&) {},
       false},
      {"segments-keep-blocks", "halves that share a tile",
       "a cut of tensor 'layers.{layer}.experts.{expert}.gate_up', whose half of 20 rows ends inside a block of 8",
       WideTiles,
       [](Plan& p) {
         FusedOf(p).sides[0].block_rows = 8;
         FusedOf(p).sides[0].of = ScaleOf::kFused;
       },
       false},
      {"segments-are-canonical", "another first segment", "segment 0 of 4 of intermediate ends at 4, derived is 3",
       Exact, [](Plan& p) { p.layer_classes[0].segment_ends[0] = 4; }, true},
      {"segments-are-canonical", "a smaller segment first", "segment 0 of 8 of shared ends at 1, derived is 2",
       ExactShared, [](Plan& p) { p.layer_classes[0].shared_expert.segment_ends[0] = 1; }, true},
      {"algorithm-fits-reduction", "an ordered sum of the transport",
       "layer 0 decode: reduction ordered has the algorithm 'as the transport does', expected 'all-gather + rank-order "
       "sum'",
       Small, [](Plan& p) { DecodeOf(p).reduce_algorithm = ReduceAlgorithm::kTransport; }, true},
      {"algorithm-fits-reduction", "a gathered sum of what is scattered",
       "layer 0 prefill: reduction ordered has the algorithm 'all-gather + rank-order sum', expected 'all-to-all of "
       "slices + rank-order sum'",
       Gathering, [](Plan& p) { PrefillOf(p).reduce_algorithm = ReduceAlgorithm::kGatherThenSum; }, true},
      {"algorithm-fits-reduction", "an exact sum in rank order",
       "layer 0 decode: reduction exact has the algorithm 'all-gather + rank-order sum', expected 'as the transport "
       "does'",
       Exact, [](Plan& p) { DecodeOf(p).reduce_algorithm = ReduceAlgorithm::kGatherThenSum; }, false},
      {"algorithm-fits-reduction", "1 MiB more, gathered",
       "layer 0 prefill: reduction ordered has the algorithm 'all-gather + rank-order sum', expected 'all-to-all of "
       "slices + rank-order sum'",
       JustExchanged, [](Plan& p) { PrefillOf(p).reduce_algorithm = ReduceAlgorithm::kGatherThenSum; }, false},
      {"algorithm-fits-reduction", "less than 1 MiB more, exchanged",
       "layer 0 decode: reduction ordered has the algorithm 'all-to-all of slices + rank-order sum', expected "
       "'all-gather + rank-order sum'",
       JustExchanged, [](Plan& p) { DecodeOf(p).reduce_algorithm = ReduceAlgorithm::kExchangeThenSum; }, false},
      {"algorithm-fits-reduction", "a large sum of two ranks, exchanged",
       "layer 0 prefill: reduction ordered has the algorithm 'all-to-all of slices + rank-order sum', expected "
       "'all-gather + rank-order sum'",
       LargeOnTwo, [](Plan& p) { PrefillOf(p).reduce_algorithm = ReduceAlgorithm::kExchangeThenSum; }, false},
      {"algorithm-fits-reduction", "an output in q8", "the output is q8, expected f32, bf16 or f16", Base,
       [](Plan& p) { p.output = Basis::kQ8; }, true},
      {"numerics-follow-reduction", "an exact sum of any backend",
       "reduction exact has the numerics 'backend's own', expected 'reference-1'", Exact,
       [](Plan& p) { p.numerics = Numerics::kBackendOwn; }, true},
      {"numerics-follow-reduction", "a contract that an ordered sum does not need",
       "reduction ordered has the numerics 'reference-1', expected 'backend's own'", Base,
       [](Plan& p) { p.numerics = Numerics::kReference1; }, true},
      {"exact-bits-fit", "a shared segment more", "layer 0 has 48 fraction bits, derived are 47", ExactShared,
       [](Plan& p) {
         LayerClass& c = p.layer_classes[0];
         c.shared_expert.segment_ends = {2, 3, 4, 5, 6, 7, 8, 9, 10};
         c.shared_expert.part_ends = {3, 5, 7, 10};
       },
       false},
      {"exact-bits-fit", "a bit more than there is", "layer 0 has 49 fraction bits, derived are 48", Exact,
       [](Plan& p) { p.layer_classes[0].fraction_bits += 1; }, true},
      {"exact-bits-fit", "a bound of an ordered sum", "a bound of 4 for a reduction ordered", Base,
       [](Plan& p) { p.exact_bound = 4; }, false},
      {"exact-bits-fit", "a bound of minus 0", "a bound of -0 for a reduction ordered", Base,
       [](Plan& p) { p.exact_bound = -0.0; }, false},
      {"exact-bits-fit", "bits of an ordered sum", "layer 0 has 40 fraction bits, derived are 0", Base,
       [](Plan& p) { p.layer_classes[0].fraction_bits = 40; }, false},
      {"exact-bits-fit", "a bound of infinity", "a bound of inf for a reduction exact", Exact,
       [](Plan& p) { p.exact_bound = std::numeric_limits<double>::infinity(); }, false},
      {"exact-bits-fit", "a bound just above a power of two", "layer 0 has 48 fraction bits, derived are 47", Exact,
       [](Plan& p) { p.exact_bound = std::nextafter(1024.0, 2000.0); }, false},
      {"exact-bits-fit", "a bound that leaves no bit",
       "a bound of 1e+18 and 10 addends leave -2 fraction bits, expected 1 to 62", Exact,
       [](Plan& p) { p.exact_bound = 1e18; }, false},
      {"exact-bits-fit", "a bound that leaves more bits than there are",
       "a bound of 1e-09 and 10 addends leave 87 fraction bits, expected 1 to 62", Exact,
       [](Plan& p) { p.exact_bound = 1e-9; }, false},
      {"programs-are-present", "no prefill", "layer 0 has 1 programs, expected one for decode and one for prefill",
       Base, [](Plan& p) { p.layer_classes[0].programs.pop_back(); }, false},
      {"programs-are-present", "two decodes", "layer 0 has 2 programs, expected one for decode and one for prefill",
       Base, [](Plan& p) { PrefillOf(p).phase = Phase::kDecode; }, false},
      {"programs-are-present", "a decode of more tokens", "the decode program takes 65 tokens, the limits say 64", Base,
       [](Plan& p) { DecodeOf(p).max_tokens = 65; }, false},
      {"programs-are-present", "a prefill that is not in the limits",
       "the prefill program takes 64 tokens, the limits say 63", Small,
       [](Plan& p) { p.limits.prefill_chunk = p.limits.rank_prefill_tokens = 63; }, true},
      {"grammar-holds", "no collective", "layer 0 decode: step 5 is residual, expected collective", Base,
       [](Plan& p) { DecodeOf(p).steps.erase(DecodeOf(p).steps.begin() + 5); }, false},
      {"grammar-holds", "two collectives", "layer 0 decode: step 6 is collective, expected residual", Base,
       [](Plan& p) { DecodeOf(p).steps.insert(DecodeOf(p).steps.begin() + 5, DecodeOf(p).steps[5]); }, false},
      {"grammar-holds", "the collective before combine", "layer 0 decode: step 4 is collective, expected combine", Base,
       [](Plan& p) { std::swap(DecodeOf(p).steps[4], DecodeOf(p).steps[5]); }, false},
      {"grammar-holds", "no residual", "layer 0 decode: ends before step 6 residual", Base,
       [](Plan& p) { DecodeOf(p).steps.pop_back(); }, false},
      {"grammar-holds", "a residual that no program adds", "layer 0 decode: ends before step 6 residual", Small,
       [](Plan& p) { p.layer_classes[0].residual = Residual::kAdd; }, true},
      {"grammar-holds", "the indexed program in prefill", "layer 0 prefill: step 1 is gate_up, expected scatter", Base,
       [](Plan& p) { PrefillOf(p).steps = DecodeOf(p).steps; }, false},
      {"grammar-holds", "no step", "layer 0 decode: ends before step 0 route", Base,
       [](Plan& p) { DecodeOf(p).steps.clear(); }, false},
      {"grammar-holds", "no gather", "layer 0 decode: step 0 is route, expected gather", Gathering,
       [](Plan& p) { DecodeOf(p).steps.erase(DecodeOf(p).steps.begin()); }, false},
      {"grammar-holds", "a shared expert that is left out",
       "layer 0 decode: step 4 is combine, expected shared_gate_up", Shared,
       [](Plan& p) { DecodeOf(p).steps[4].kind = StepKind::kCombine; }, false},
      {"grammar-holds", "tokens gathered for a given routing", "layer 0 decode: gathers tokens for route_given", Given,
       [](Plan& p) {
         p.degrees.dense_tp = 1;
         p.limits.rank_decode_tokens = p.limits.rank_prefill_tokens = 32;
         DecodeOf(p).reduce_algorithm = PrefillOf(p).reduce_algorithm = ReduceAlgorithm::kExchangeThenSum;
       },
       false},
      {"operands-are-tied", "down reads what gate_up made",
       "layer 0 decode: step 3 down has inputs (2, 1), expected (3, 1)", Base,
       [](Plan& p) { StepOf(DecodeOf(p), StepKind::kDown).inputs[0] = 2; }, false},
      {"operands-are-tied", "an input that is made later",
       "layer 0 decode: step 1 gate_up has inputs (0, 5), expected (0, 1)", Base,
       [](Plan& p) { DecodeOf(p).steps[1].inputs[1] = 5; }, false},
      {"operands-are-tied", "an output that exists", "layer 0 decode: step 3 down has outputs (3), expected (4)", Base,
       [](Plan& p) { DecodeOf(p).steps[3].outputs[0] = 3; }, false},
      {"operands-are-tied", "gate and up swapped", "layer 0 decode: step 1 gate_up has tensors (2, 1), expected (1, 2)",
       Base, [](Plan& p) { std::swap(DecodeOf(p).steps[1].tensors[0], DecodeOf(p).steps[1].tensors[1]); }, true},
      {"operands-are-tied", "a bias that is left out", "layer 0 decode: step 3 down has tensors (3), expected (3, 6)",
       Exact, [](Plan& p) { StepOf(DecodeOf(p), StepKind::kDown).tensors.pop_back(); }, false},
      {"operands-are-tied", "a residual of something else",
       "layer 0 decode: step 6 residual has inputs (6, 1), expected (6, 0)", Base,
       [](Plan& p) { StepOf(DecodeOf(p), StepKind::kResidual).inputs[1] = 1; }, false},
      {"operands-are-tied", "a residual of gathered tokens",
       "layer 0 decode: step 7 residual has inputs (7, 1), expected (7, 0)", Gathering,
       [](Plan& p) { StepOf(DecodeOf(p), StepKind::kResidual).inputs[1] = 1; }, false},
      {"operands-are-tied", "a route of tokens that are not gathered",
       "layer 0 decode: step 1 route has inputs (0), expected (1)", Gathering,
       [](Plan& p) { StepOf(DecodeOf(p), StepKind::kRoute).inputs[0] = 0; }, false},
      {"operands-are-tied", "a table of the wrong ids",
       "layer 0 decode: step 0 route_by_table has inputs (0, 0), expected (0, 1)", Table,
       [](Plan& p) { StepOf(DecodeOf(p), StepKind::kRouteByTable).inputs[1] = 0; }, false},
      {"operands-are-tied", "a routing past the given one",
       "layer 0 decode: step 1 gate_up has inputs (0, 1), expected (0, 2)", Given,
       [](Plan& p) { StepOf(DecodeOf(p), StepKind::kGateUp).inputs[1] = 1; }, false},
      {"operands-are-tied", "a value that no step makes", "layer 0 decode: 9 values, the steps make 8", Base,
       [](Plan& p) { DecodeOf(p).values.push_back(DecodeOf(p).values[1]); }, false},
      {"types-are-derived", "an addend called replicated",
       "layer 0 decode: %5 is token hidden all tp P ep R weighted, derived is token hidden all tp P ep P weighted",
       Base, [](Plan& p) { DecodeOf(p).values[5].ep = AxisPlacement::kReplicated; }, false},
      {"types-are-derived", "a cut called replicated",
       "layer 0 decode: %2 is slot 2*columns owned tp R ep R unweighted, derived is slot 2*columns owned tp S(col) ep "
       "R unweighted",
       Base, [](Plan& p) { DecodeOf(p).values[2].tp = AxisPlacement::kReplicated; }, false},
      {"types-are-derived", "owned rows called all",
       "layer 0 prefill: %2 is row hidden all tp R ep R unweighted, derived is row hidden owned tp R ep R unweighted",
       Base, [](Plan& p) { PrefillOf(p).values[2].rows = RowSet::kAll; }, false},
      {"types-are-derived", "weighted before combine",
       "layer 0 decode: %4 is slot hidden owned tp P ep R weighted, derived is slot hidden owned tp P ep R unweighted",
       Base, [](Plan& p) { DecodeOf(p).values[4].weighted = true; }, true},
      {"types-are-derived", "fixed point of an ordered sum",
       "layer 0 decode: %4 is slot hidden owned tp P ep R unweighted fixed point, derived is slot hidden owned tp P ep "
       "R "
       "unweighted",
       Base, [](Plan& p) { DecodeOf(p).values[4].fixed_point = true; }, false},
      {"types-are-derived", "float32 addends of an exact sum",
       "layer 0 prefill: %8 is token hidden all tp P ep R weighted, derived is token hidden all tp P ep R weighted "
       "fixed "
       "point",
       Exact, [](Plan& p) { PrefillOf(p).values[8].fixed_point = false; }, false},
      {"types-are-derived", "fixed point beyond the collective",
       "layer 0 decode: %9 is token hidden all tp R ep R weighted fixed point, derived is token hidden all tp R ep R "
       "weighted",
       ExactShared, [](Plan& p) { DecodeOf(p).values[9].fixed_point = true; }, false},
      {"types-are-derived", "an exact sum that down does not weigh",
       "layer 0 decode: %4 is slot hidden all tp P ep R unweighted fixed point, derived is slot hidden all tp P ep R "
       "weighted fixed point",
       Exact, [](Plan& p) { DecodeOf(p).values[4].weighted = false; }, true},
      {"types-are-derived", "another width",
       "layer 0 decode: %3 is slot 2*columns owned tp S(col) ep R unweighted, derived is slot columns owned tp S(col) "
       "ep R unweighted",
       Base, [](Plan& p) { DecodeOf(p).values[3].width = ValueWidth::kTwoColumns; }, false},
      {"types-are-derived", "a part called all",
       "layer 0 decode: %0 is token hidden all tp R ep R unweighted, derived is token hidden part tp R ep R unweighted",
       Gathering, [](Plan& p) { DecodeOf(p).values[0].rows = RowSet::kAll; }, false},
      {"types-are-derived", "an owner called a cut",
       "layer 0 decode: %5 is shared 2*shared columns all tp S(col) ep S(col) unweighted, derived is shared 2*shared "
       "columns all tp S(col) ep only(0) unweighted",
       Owner, [](Plan& p) { DecodeOf(p).values[5].ep = AxisPlacement::kSplitColumns; }, false},
      {"collective-sums-addends", "a sum over ep alone",
       "layer 0 decode: the collective sums over tp no ep yes, its input is an addend on tp yes ep yes", Base,
       [](Plan& p) { StepOf(DecodeOf(p), StepKind::kCollective).collectives[0].over_tp = false; }, true},
      {"collective-sums-addends", "a sum over tp alone",
       "layer 0 prefill: the collective sums over tp yes ep no, its input is an addend on tp yes ep yes", Base,
       [](Plan& p) { StepOf(PrefillOf(p), StepKind::kCollective).collectives[0].over_ep = false; }, false},
      {"collective-sums-addends", "a collective inside combine",
       "layer 0 decode: step combine has 1 collectives, expected 0", Base,
       [](Plan& p) {
         StepOf(DecodeOf(p), StepKind::kCombine).collectives = StepOf(DecodeOf(p), StepKind::kCollective).collectives;
       },
       false},
      {"collective-sums-addends", "a collective step without one",
       "layer 0 decode: step collective has 0 collectives, expected 1", Base,
       [](Plan& p) { StepOf(DecodeOf(p), StepKind::kCollective).collectives.clear(); }, false},
      {"collective-sums-addends", "a sum of what is scattered",
       "layer 0 decode: the collective is a sum, expected reduce-scatter", Gathering,
       [](Plan& p) { StepOf(DecodeOf(p), StepKind::kCollective).collectives[0].op = CollectiveOp::kSum; }, false},
      {"capacity-is-proven", "one row short",
       "layer 0 prefill, ranks with 2 experts and 6 columns: room for 127 grouped rows, proven are 128", Base,
       [](Plan& p) { PrefillOf(p).layouts[0].grouped_rows -= 1; }, false},
      {"capacity-is-proven", "room for rows in decode",
       "layer 0 decode, ranks with 2 experts and 6 columns: room for 4 grouped rows, proven are 0", Base,
       [](Plan& p) { DecodeOf(p).layouts[0].grouped_rows = 4; }, true},
      {"capacity-is-proven", "a shape of rank without layout",
       "3 layouts, not one for each of the 4 shapes of rank in order", Base,
       [](Plan& p) { DecodeOf(p).layouts.pop_back(); }, false},
      {"capacity-is-proven", "shared columns that no rank has",
       "2 layouts, not one for each of the 2 shapes of rank in order", Shared,
       [](Plan& p) { DecodeOf(p).layouts[0].shared_columns += 1; }, false},
      {"capacity-is-proven", "no tile", "the prefill program has tiles of 0 rows", Base,
       [](Plan& p) { PrefillOf(p).tile_rows = 0; }, false},
      {"capacity-is-proven", "a tile that is too large", "the prefill program has tiles of 1025 rows", Base,
       [](Plan& p) { PrefillOf(p).tile_rows = 1025; }, false},
      {"buffers-do-not-overlap", "a buffer one byte short",
       "layer 0 decode, ranks with 2 experts and 6 columns: the buffer of %1 has 1023 bytes, the value 1024", Base,
       [](Plan& p) { DecodeOf(p).layouts[0].buffers[1].bytes -= 1; }, false},
      {"buffers-do-not-overlap", "a misaligned buffer",
       "layer 0 decode, ranks with 2 experts and 6 columns: the buffer of %1 starts at 4100, not at a multiple of 64",
       Base, [](Plan& p) { DecodeOf(p).layouts[0].buffers[1].offset += 4; }, false},
      {"buffers-do-not-overlap", "an input on the routing",
       "layer 0 decode, ranks with 2 experts and 6 columns: the buffers of %0 and %1 overlap while both are live", Base,
       [](Plan& p) { DecodeOf(p).layouts[0].buffers[1].offset = 0; }, true},
      {"buffers-do-not-overlap", "an arena that is too small",
       "layer 0 decode, ranks with 2 experts and 6 columns: the arena has 34752 bytes, its buffers end at 34816", Base,
       [](Plan& p) { DecodeOf(p).layouts[0].arena_bytes -= 64; }, false},
      {"buffers-do-not-overlap", "a buffer beyond 64 bits",
       "layer 0 decode, ranks with 2 experts and 6 columns: the buffer of %1 ends beyond 64 bits", Base,
       [](Plan& p) { DecodeOf(p).layouts[0].buffers[1].offset = ~uint64_t{63}; }, false},
      {"buffers-do-not-overlap", "a value without buffer",
       "layer 0 decode, ranks with 2 experts and 6 columns: 7 buffers for 8 values", Base,
       [](Plan& p) { DecodeOf(p).layouts[0].buffers.pop_back(); }, false},
      {"indices-reach-elements", "indices of 64 bits",
       "layer 0 decode: indices of 64 bits, the largest value has 2048 elements", Base,
       [](Plan& p) { DecodeOf(p).index_bits = 64; }, true},
      {"indices-reach-elements", "indices that do not reach",
       "layer 0 prefill: indices of 32 bits, the largest value has 4296540160 elements", Huge, [](Plan&) {}, false},
      {"memory-adds-up", "one byte more weights", "rank 3 weights 11905 bytes, derived are 11904", Full,
       [](Plan& p) { p.memory[3].weights += 1; }, true},
      {"memory-adds-up", "one byte more other", "rank 3 other weights 1270 bytes, derived are 1269", Full,
       [](Plan& p) { p.memory[3].other += 1; }, false},
      {"memory-adds-up", "one byte more repacked", "rank 3 repacked 12 bytes, derived are 11", Full,
       [](Plan& p) { p.memory[3].repacked += 1; }, false},
      {"memory-adds-up", "one byte more staging", "rank 3 staging 3457 bytes, derived are 3456", Full,
       [](Plan& p) { p.memory[3].staging += 1; }, false},
      {"memory-adds-up", "one byte more decode work", "rank 3 decode work 34817 bytes, derived are 34816", Full,
       [](Plan& p) { p.memory[3].decode_work += 1; }, false},
      {"memory-adds-up", "one byte more prefill work", "rank 3 prefill work 51137 bytes, derived are 51136", Full,
       [](Plan& p) { p.memory[3].prefill_work += 1; }, false},
      {"memory-adds-up", "one byte more collective", "rank 3 collective 24961 bytes, derived are 24960", Full,
       [](Plan& p) { p.memory[3].collective += 1; }, false},
      {"memory-adds-up", "a gathered sum that is smaller than an exchanged one, and needs more",
       "rank 0 collective 0 bytes, derived are 4706496", JustExchanged, [](Plan& p) { p.memory[0].collective = 0; },
       false},
      {"memory-adds-up", "an exchanged sum that needs more than a gathered one",
       "rank 0 collective 0 bytes, derived are 3145792", WellExchanged, [](Plan& p) { p.memory[0].collective = 0; },
       false},
      {"memory-adds-up", "one byte more communicator", "rank 3 communicator 18 bytes, derived are 17", Full,
       [](Plan& p) { p.memory[3].communicator += 1; }, false},
      {"memory-adds-up", "one byte more capture", "rank 3 capture 14 bytes, derived are 13", Full,
       [](Plan& p) { p.memory[3].capture += 1; }, false},
      {"memory-adds-up", "one byte more sessions", "rank 3 sessions 24 bytes, derived are 23", Full,
       [](Plan& p) { p.memory[3].sessions += 1; }, false},
      {"memory-adds-up", "one byte more total", "rank 3 total 89334 bytes, derived are 89333", Full,
       [](Plan& p) { p.memory[3].total += 1; }, false},
      {"memory-adds-up", "one byte more budget", "rank 3 budget 1099511627758 bytes, derived are 1099511627757", Full,
       [](Plan& p) { p.memory[3].budget += 1; }, false},
      {"memory-adds-up", "a forgotten work arena", "rank 0 prefill work 0 bytes, derived are 53760", Base,
       [](Plan& p) { p.memory[0].prefill_work = 0; }, false},
      {"memory-adds-up", "more than the device has",
       "the ranks on the device of rank 0 need 92352 bytes, its budget is 10", Base,
       [](Plan& p) {
         for (DeviceKind& kind : p.mesh.device_kinds) kind.memory_bytes = kind.usable_bytes = 10;
         for (RankMemory& memory : p.memory) memory.budget = 10;
       },
       false},
      {"memory-adds-up", "more on a device than 64 bits hold",
       "the ranks on the device of rank 1 need more than 64 bits hold bytes, its budget is 18446744073709551615", Base,
       [](Plan& p) {
         p.limits.sessions = 1;
         p.limits.per_session_bytes = uint64_t{1} << 63;
         for (DeviceKind& kind : p.mesh.device_kinds) kind.memory_bytes = kind.usable_bytes = ~uint64_t{0};
         for (RankMemory& memory : p.memory) {
           memory.sessions = p.limits.per_session_bytes;
           memory.total += memory.sessions;
           memory.budget = ~uint64_t{0};
         }
       },
       false},
      {"memory-adds-up", "KV heads of more than 64 bits",
       "rank 0 other weights 0 bytes, derived are more than 64 bits hold", HugeHeads,
       [](Plan& p) { p.memory[0].other = 0; }, false},
      {"memory-adds-up", "sessions of more than 64 bits", "rank 0 sessions 0 bytes, derived are more than 64 bits hold",
       Base,
       [](Plan& p) {
         p.limits.sessions = 2;
         p.limits.per_session_bytes = ~uint64_t{0};
       },
       false},
      {"memory-adds-up", "a rank without memory plan", "23 ranks have a memory plan, the world has 24", Base,
       [](Plan& p) { p.memory.pop_back(); }, false},
      {"prices-have-two-rows", "a price of one phase", "1 prices, expected one for each of 2 phases", Full,
       [](Plan& p) { p.prices.pop_back(); }, false},
      {"prices-have-two-rows", "a price of other tokens", "the price of prefill is for 65 tokens, the limits say 64",
       Full, [](Plan& p) { p.prices[1].tokens += 1; }, true},
      {"fingerprint-holds", "another fingerprint",
       "",  // TextOf has it
       Base, [](Plan& p) { p.execution_fingerprint[0] ^= 1; }, true},
  };
}

TEST(Meaning, ValidPlansPass) {
  for (const samples::SamplePlan& sample : samples::ValidPlans()) {
    EXPECT_EQ(OpenForged(sample.plan), absl::OkStatus()) << sample.name;
  }
}

TEST(Meaning, EachMutantIsRefusedByItsRule) {
  for (const Mutant& mutant : Mutants()) {
    const Plan plan = Mutated(mutant);
    const absl::Status status = OpenForged(plan, KeepsFingerprint(mutant));
    EXPECT_EQ(ReasonOf(status), Reason::kMeaning) << mutant.what;
    EXPECT_EQ(std::string(status.message()),
              absl::StrCat("refused at gate 'meaning': [", mutant.rule, "] ", TextOf(mutant, plan)))
        << mutant.what;
  }
}

// No rule is there twice: for each there is a plan that passes all the others.
TEST(Meaning, EveryRuleAloneRefusesSomeMutant) {
  struct Row {
    const char* slug;
    meaning::Fault (*check)(const Plan&, const SealFacts&);
  };
  const Row rows[] = {
#define MESHSEAL_MEANING_RULE(Function, slug, promise) {slug, &meaning::Function},
#include "schema/meaning/rules.def"
#undef MESHSEAL_MEANING_RULE
  };
  SealFacts facts;
  facts.stream = StreamOf("test");
  std::set<std::string> covered;
  for (const Mutant& mutant : Mutants()) {
    if (!mutant.alone) continue;
    Plan plan = Mutated(mutant);
    if (!KeepsFingerprint(mutant)) plan.execution_fingerprint = ExecutionFingerprint(plan);
    for (const Row& row : rows) {
      const meaning::Fault fault = row.check(plan, facts);
      EXPECT_EQ(fault.has_value(), std::string(row.slug) == mutant.rule)
          << mutant.what << ": [" << row.slug << "] " << fault.value_or("");
    }
    covered.insert(mutant.rule);
  }
  for (const MeaningRuleRow& row : MeaningRules()) EXPECT_EQ(covered.count(row.slug), 1u) << row.slug;
}

// First and last step at which a value's bytes must be intact.
std::pair<size_t, size_t> LifetimeOf(const Program& program, uint32_t value) {
  std::pair<size_t, size_t> lifetime = {0, 0};
  for (size_t step = 0; step < program.steps.size(); ++step) {
    for (const uint32_t output : program.steps[step].outputs) {
      if (output == value) lifetime = {step, step};
    }
    for (const uint32_t input : program.steps[step].inputs) {
      if (input == value) lifetime.second = step;
    }
  }
  if (program.steps.back().outputs[0] == value) lifetime.second = program.steps.size();
  return lifetime;
}

TEST(Meaning, OneLineOfOverlapIsRefusedForEveryPairThatIsLiveTogether) {
  const Plan valid = support::BuildPlan(Base());
  size_t pairs = 0;
  for (size_t p = 0; p < 2; ++p) {
    const Program& program = valid.layer_classes[0].programs[p];
    for (uint32_t i = 0; i < program.values.size(); ++i) {
      for (uint32_t j = 0; j < program.values.size(); ++j) {
        const auto [i_first, i_last] = LifetimeOf(program, i);
        const auto [j_first, j_last] = LifetimeOf(program, j);
        if (i == j || i_last < j_first || j_last < i_first) continue;
        ++pairs;
        Plan plan = valid;
        WorkLayout& layout = plan.layer_classes[0].programs[p].layouts[0];
        // i starts at the last aligned byte that j still holds.
        layout.buffers[i].offset = (layout.buffers[j].offset + layout.buffers[j].bytes - 1) / 64 * 64;
        uint64_t end = 0;
        for (const Buffer& buffer : layout.buffers) end = std::max(end, buffer.offset + buffer.bytes);
        layout.arena_bytes = (end + 63) / 64 * 64;
        EXPECT_TRUE(absl::StrContains(OpenForged(plan).message(), "overlap while both are live")) << i << " on " << j;
      }
    }
  }
  EXPECT_GT(pairs, 40u);
}

}  // namespace
}  // namespace meshseal
