// The meaning gate: each rule refuses the plans that break it, by name, although they are sealed like any other.
#include "schema/meaning/meaning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "schema/fingerprint.h"
#include "schema/plan_codec.h"
#include "schema/reason.h"
#include "schema/seal.h"
#include "schema/sealed_plan.h"
#include "tests/support/plan_builder.h"

namespace meshseal {
namespace {

Plan ValidPlan() {
  support::PlanNumbers numbers;
  numbers.dp = 2;
  numbers.pp = 2;
  numbers.tp = 2;
  numbers.ep = 3;
  numbers.layers = 5;
  numbers.experts = 8;
  numbers.intermediate = 13;
  numbers.residual = Residual::kAdd;
  return support::BuildPlan(numbers);
}

// Seals without asking the gates, as a forger with a hash function would; the fingerprint is made to fit.
absl::Status OpenForged(Plan plan, bool keep_fingerprint = false) {
  if (!keep_fingerprint) plan.execution_fingerprint = ExecutionFingerprint(plan);
  const std::string file = SealPayload(EncodePlan(plan), PayloadType::kPlan, 0, StreamOf(plan.deployment_name));
  return SealedPlan::Open(file, Policy{}).status();
}

struct Mutant {
  const char* rule;
  const char* what;
  std::function<void(Plan&)> change;
};

Program& DecodeOf(Plan& plan) { return plan.layer_classes[0].programs[0]; }
Program& PrefillOf(Plan& plan) { return plan.layer_classes[0].programs[1]; }

Step& StepOf(Program& program, StepKind kind) {
  for (Step& step : program.steps) {
    if (step.kind == kind) return step;
  }
  return program.steps.front();
}

std::vector<Mutant> Mutants() {
  return {
      {"terms-are-known", "scoring 9", [](Plan& p) { p.layer_classes[0].router.scoring = static_cast<Scoring>(9); }},
      {"terms-are-known", "reduction 0", [](Plan& p) { p.reduction = Reduction::kInvalid; }},
      {"terms-are-known", "dtype 200", [](Plan& p) { p.layer_classes[0].tensors[1].dtype = static_cast<DType>(200); }},
      {"terms-are-known", "step 77", [](Plan& p) { DecodeOf(p).steps[2].kind = static_cast<StepKind>(77); }},
      {"terms-are-known", "placement 5", [](Plan& p) { DecodeOf(p).values[2].tp = static_cast<AxisPlacement>(5); }},
      {"terms-are-known", "op 3",
       [](Plan& p) { StepOf(DecodeOf(p), StepKind::kCollective).collectives[0].op = static_cast<CollectiveOp>(3); }},
      {"terms-are-executed", "sigmoid scores", [](Plan& p) { p.layer_classes[0].router.scoring = Scoring::kSigmoid; }},
      {"terms-are-executed", "a guarded denominator",
       [](Plan& p) { p.layer_classes[0].router.renormalize = Renormalize::kSumPlus; }},
      {"terms-are-executed", "weights on the input",
       [](Plan& p) { p.layer_classes[0].router.weight_applied = WeightPoint::kInput; }},
      {"terms-are-executed", "a router product in q8", [](Plan& p) { p.layer_classes[0].router.input = Basis::kQ8; }},
      {"terms-are-executed", "geglu", [](Plan& p) { p.layer_classes[0].activation = ActivationKind::kGeGlu; }},
      {"terms-are-executed", "a rotated gate_up basis",
       [](Plan& p) { p.layer_classes[0].gate_up_basis = Basis::kRotated; }},
      {"terms-are-executed", "a q8 down basis", [](Plan& p) { p.layer_classes[0].down_basis = Basis::kQ8; }},
      {"terms-are-executed", "an exact reduction", [](Plan& p) { p.reduction = Reduction::kExact; }},
      {"terms-are-executed", "an f16 output", [](Plan& p) { p.output = Basis::kF16; }},
      {"terms-are-executed", "synthetic weights", [](Plan& p) { p.weight_source = WeightSource::kSynthetic; }},
      {"names-are-text", "a name with a line feed", [](Plan& p) { p.model_name = "two\nlines"; }},
      {"names-are-text", "a name that is not UTF-8", [](Plan& p) { p.mesh.nodes[0].name = "\xff"; }},
      {"names-are-text", "no name", [](Plan& p) { p.mesh.name.clear(); }},
      {"names-are-text", "a name of 2 KiB", [](Plan& p) { p.model_family = std::string(2048, 'x'); }},
      {"origins-exist", "a document too many", [](Plan& p) { DecodeOf(p).steps[0].origin.source = 99; }},
      {"origins-exist", "line 0", [](Plan& p) { PrefillOf(p).steps[1].origin.line = 0; }},
      {"degrees-make-world", "one rank too few", [](Plan& p) { p.mesh.rank_slots.pop_back(); }},
      {"degrees-make-world", "ep 0", [](Plan& p) { p.degrees.ep = 0; }},
      {"degrees-make-world", "ep and tp swapped over into another world", [](Plan& p) { p.degrees.dp = 3; }},
      {"degrees-make-world", "dense tp below the group", [](Plan& p) { p.degrees.dense_tp = 3; }},
      {"degrees-make-world", "more ranks than fit",
       [](Plan& p) {
         p.degrees.dp = 65536;
         p.degrees.ep = 65536;
       }},
      {"ranks-have-slots", "a slot that does not exist", [](Plan& p) { p.mesh.rank_slots[1].slot = 9999; }},
      {"ranks-have-slots", "a node that does not exist", [](Plan& p) { p.mesh.rank_slots[1].node = 9999; }},
      {"ranks-have-slots", "a device kind that does not exist", [](Plan& p) { p.mesh.nodes[0].device_kind = 7; }},
      {"ranks-have-slots", "two ranks on a slot of a real mesh",
       [](Plan& p) {
         p.mesh.emulated = false;
         p.mesh.rank_slots[1] = p.mesh.rank_slots[0];
       }},
      {"stages-cover-layers", "an empty stage", [](Plan& p) { p.stage_ends[0] = 0; }},
      {"stages-cover-layers", "a lost layer", [](Plan& p) { p.stage_ends[1] = 4; }},
      {"stages-cover-layers", "a stage too few", [](Plan& p) { p.stage_ends.pop_back(); }},
      {"limits-are-coherent", "buckets that do not ascend",
       [](Plan& p) {
         p.limits.decode_buckets = {8, 8, 64};
       }},
      {"limits-are-coherent", "a last bucket that is too small", [](Plan& p) { p.limits.decode_buckets = {1}; }},
      {"limits-are-coherent", "a chunk above the prefill", [](Plan& p) { p.limits.prefill_tokens = 63; }},
      {"limits-are-coherent", "no session", [](Plan& p) { p.limits.sessions = 0; }},
      {"layers-are-covered-once", "a layer outside the model",
       [](Plan& p) {
         p.layer_classes[0].layers = {{0, 6}};
       }},
      {"layers-are-covered-once", "an empty range",
       [](Plan& p) {
         p.layer_classes[0].layers = {{2, 2}};
       }},
      {"layers-are-covered-once", "a layer in two classes",
       [](Plan& p) { p.layer_classes.push_back(p.layer_classes[0]); }},
      {"layers-are-covered-once", "no layer class", [](Plan& p) { p.layer_classes.clear(); }},
      {"sizes-are-sane", "top-k above the experts", [](Plan& p) { p.layer_classes[0].top_k = 9; }},
      {"sizes-are-sane", "top-k 0", [](Plan& p) { p.layer_classes[0].top_k = 0; }},
      {"sizes-are-sane", "hidden 0", [](Plan& p) { p.hidden = 0; }},
      {"router-is-coherent", "a scale of 0", [](Plan& p) { p.layer_classes[0].router.scale = 0; }},
      {"router-is-coherent", "a scale that is NaN",
       [](Plan& p) { p.layer_classes[0].router.scale = std::numeric_limits<float>::quiet_NaN(); }},
      {"tensors-are-complete", "no down tensor", [](Plan& p) { p.layer_classes[0].tensors.pop_back(); }},
      {"tensors-are-complete", "two up tensors", [](Plan& p) { p.layer_classes[0].tensors[1].role = TensorRole::kUp; }},
      {"tensors-are-complete", "swapped axes",
       [](Plan& p) {
         p.layer_classes[0].tensors[3].shape = {ShapeAxis::kIntermediate, ShapeAxis::kHidden};
       }},
      {"tensors-are-complete", "a dtype of blocks",
       [](Plan& p) { p.layer_classes[0].tensors[3].dtype = DType::kQ8_0; }},
      {"tensors-are-complete", "one name for gate and up",
       [](Plan& p) { p.layer_classes[0].tensors[1].name = p.layer_classes[0].tensors[2].name; }},
      {"tensors-are-complete", "a name for all experts",
       [](Plan& p) { p.layer_classes[0].tensors[1].name = "l.{layer}.gate"; }},
      {"tensors-are-complete", "a name for all layers", [](Plan& p) { p.layer_classes[0].tensors[0].name = "router"; }},
      {"tensors-are-complete", "a weight of indices",
       [](Plan& p) { p.layer_classes[0].tensors[2].dtype = DType::kI32; }},
      {"experts-are-owned-once", "an expert without owner",
       [](Plan& p) { p.layer_classes[0].expert_shards.pop_back(); }},
      {"experts-are-owned-once", "an owner outside ep", [](Plan& p) { p.layer_classes[0].expert_shards[7].owner = 3; }},
      {"experts-are-owned-once", "a local number twice",
       [](Plan& p) { p.layer_classes[0].expert_shards[1].local = 0; }},
      {"experts-are-owned-once", "a rank without experts",
       [](Plan& p) {
         uint32_t next = 0;
         for (ExpertShard& shard : p.layer_classes[0].expert_shards) shard = {0, next++};
       }},
      {"columns-are-owned-once", "segments that miss a column",
       [](Plan& p) { p.layer_classes[0].segment_ends.back() = 12; }},
      {"columns-are-owned-once", "segments that do not ascend",
       [](Plan& p) {
         p.layer_classes[0].segment_ends = {7, 7, 13};
       }},
      {"columns-are-owned-once", "a tp rank without a segment",
       [](Plan& p) {
         p.layer_classes[0].tp_segment_ends = {2, 2};
       }},
      {"columns-are-owned-once", "a tp rank too few", [](Plan& p) { p.layer_classes[0].tp_segment_ends = {2}; }},
      {"programs-are-present", "no prefill", [](Plan& p) { p.layer_classes[0].programs.pop_back(); }},
      {"programs-are-present", "two decodes", [](Plan& p) { PrefillOf(p).phase = Phase::kDecode; }},
      {"programs-are-present", "a decode of more tokens", [](Plan& p) { DecodeOf(p).max_tokens = 65; }},
      {"grammar-holds", "no collective", [](Plan& p) { DecodeOf(p).steps.erase(DecodeOf(p).steps.begin() + 5); }},
      {"grammar-holds", "two collectives",
       [](Plan& p) { DecodeOf(p).steps.insert(DecodeOf(p).steps.begin() + 5, DecodeOf(p).steps[5]); }},
      {"grammar-holds", "the collective before combine",
       [](Plan& p) { std::swap(DecodeOf(p).steps[4], DecodeOf(p).steps[5]); }},
      {"grammar-holds", "no residual", [](Plan& p) { DecodeOf(p).steps.pop_back(); }},
      {"grammar-holds", "the indexed program in prefill", [](Plan& p) { PrefillOf(p).steps = DecodeOf(p).steps; }},
      {"grammar-holds", "no step", [](Plan& p) { DecodeOf(p).steps.clear(); }},
      {"operands-are-tied", "down reads what gate_up made",
       [](Plan& p) { StepOf(DecodeOf(p), StepKind::kDown).inputs[0] = 2; }},
      {"operands-are-tied", "an input that is made later", [](Plan& p) { DecodeOf(p).steps[1].inputs[1] = 5; }},
      {"operands-are-tied", "an output that exists", [](Plan& p) { DecodeOf(p).steps[3].outputs[0] = 3; }},
      {"operands-are-tied", "gate and up swapped",
       [](Plan& p) { std::swap(DecodeOf(p).steps[1].tensors[0], DecodeOf(p).steps[1].tensors[1]); }},
      {"operands-are-tied", "a residual of something else",
       [](Plan& p) { StepOf(DecodeOf(p), StepKind::kResidual).inputs[1] = 1; }},
      {"operands-are-tied", "a value that no step makes",
       [](Plan& p) { DecodeOf(p).values.push_back(DecodeOf(p).values[1]); }},
      {"types-are-derived", "an addend called replicated",
       [](Plan& p) { DecodeOf(p).values[5].ep = AxisPlacement::kReplicated; }},
      {"types-are-derived", "a cut called replicated",
       [](Plan& p) { DecodeOf(p).values[2].tp = AxisPlacement::kReplicated; }},
      {"types-are-derived", "owned rows called all", [](Plan& p) { PrefillOf(p).values[2].rows = RowSet::kAll; }},
      {"types-are-derived", "weighted before combine", [](Plan& p) { DecodeOf(p).values[4].weighted = true; }},
      {"types-are-derived", "another width", [](Plan& p) { DecodeOf(p).values[3].width = ValueWidth::kTwoColumns; }},
      {"collective-sums-addends", "a sum over ep alone",
       [](Plan& p) { StepOf(DecodeOf(p), StepKind::kCollective).collectives[0].over_tp = false; }},
      {"collective-sums-addends", "a sum over tp alone",
       [](Plan& p) { StepOf(PrefillOf(p), StepKind::kCollective).collectives[0].over_ep = false; }},
      {"collective-sums-addends", "a collective inside combine",
       [](Plan& p) {
         StepOf(DecodeOf(p), StepKind::kCombine).collectives = StepOf(DecodeOf(p), StepKind::kCollective).collectives;
       }},
      {"collective-sums-addends", "a collective step without one",
       [](Plan& p) { StepOf(DecodeOf(p), StepKind::kCollective).collectives.clear(); }},
      {"capacity-is-proven", "one row short", [](Plan& p) { PrefillOf(p).layouts[0].grouped_rows -= 1; }},
      {"capacity-is-proven", "room for rows in decode", [](Plan& p) { DecodeOf(p).layouts[0].grouped_rows = 4; }},
      {"capacity-is-proven", "a shape of rank without layout", [](Plan& p) { DecodeOf(p).layouts.pop_back(); }},
      {"capacity-is-proven", "no tile", [](Plan& p) { PrefillOf(p).tile_rows = 0; }},
      {"buffers-do-not-overlap", "a buffer one byte short",
       [](Plan& p) { DecodeOf(p).layouts[0].buffers[1].bytes -= 1; }},
      {"buffers-do-not-overlap", "a misaligned buffer", [](Plan& p) { DecodeOf(p).layouts[0].buffers[1].offset += 4; }},
      {"buffers-do-not-overlap", "an arena that is too small",
       [](Plan& p) { DecodeOf(p).layouts[0].arena_bytes -= 64; }},
      {"buffers-do-not-overlap", "a buffer beyond 64 bits",
       [](Plan& p) { DecodeOf(p).layouts[0].buffers[1].offset = ~uint64_t{63}; }},
      {"buffers-do-not-overlap", "a value without buffer", [](Plan& p) { DecodeOf(p).layouts[0].buffers.pop_back(); }},
      {"memory-adds-up", "weights that are too few", [](Plan& p) { p.memory[3].weights -= 1; }},
      {"memory-adds-up", "a forgotten work arena", [](Plan& p) { p.memory[0].work = 0; }},
      {"memory-adds-up", "a total that does not add up", [](Plan& p) { p.memory[0].total += 1; }},
      {"memory-adds-up", "a budget that is too large", [](Plan& p) { p.memory[0].budget += 1; }},
      {"memory-adds-up", "more than the device has",
       [](Plan& p) {
         for (DeviceKind& kind : p.mesh.device_kinds)
           kind.memory_bytes = kind.usable_bytes = p.limits.headroom_bytes + 10;
         for (RankMemory& memory : p.memory) memory.budget = 10;
       }},
      {"memory-adds-up", "a rank without memory plan", [](Plan& p) { p.memory.pop_back(); }},
  };
}

TEST(Meaning, ValidPlansPass) { EXPECT_EQ(OpenForged(ValidPlan()), absl::OkStatus()); }

TEST(Meaning, EachMutantIsRefusedByItsRule) {
  for (const Mutant& mutant : Mutants()) {
    Plan plan = ValidPlan();
    mutant.change(plan);
    const absl::Status status = OpenForged(plan);
    EXPECT_EQ(ReasonOf(status), Reason::kMeaning) << mutant.what;
    EXPECT_EQ(std::string(status.message()).rfind(absl::StrCat("refused at gate 'meaning': [", mutant.rule, "] "), 0),
              0u)
        << mutant.what << ": " << status.message();
  }
}

TEST(Meaning, FingerprintAndStreamAreBound) {
  Plan plan = ValidPlan();
  plan.execution_fingerprint[0] ^= 1;
  const absl::Status status = OpenForged(plan, true);
  EXPECT_TRUE(absl::StrContains(status.message(), "[fingerprint-holds] sealed fingerprint ")) << status;

  plan = ValidPlan();
  const std::string file = SealPayload(EncodePlan(plan), PayloadType::kPlan, 0, StreamOf("another deployment"));
  EXPECT_EQ(
      SealedPlan::Open(file, Policy{}).status().message(),
      absl::StrCat("refused at gate 'meaning': [stream-is-deployment] the seal's stream is not that of deployment '",
                   plan.deployment_name, "'"));
}

TEST(Meaning, EveryRuleHasAMutant) {
  std::set<std::string> covered = {"fingerprint-holds", "stream-is-deployment"};  // the test above
  for (const Mutant& mutant : Mutants()) covered.insert(mutant.rule);
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
  Plan valid = ValidPlan();
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
