// Plans for tests, made without the compiler: every derived figure (owners, cuts, buffers, memory,
// fingerprint) follows from a few numbers, and the result passes all gates. A test that wants a broken plan
// changes the Plan afterwards.
#ifndef MESHSEAL_TESTS_SUPPORT_PLAN_BUILDER_H_
#define MESHSEAL_TESTS_SUPPORT_PLAN_BUILDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "schema/plan.h"
#include "schema/sealed_plan.h"

namespace meshseal::support {

struct PlanNumbers {
  uint32_t dp = 1;
  uint32_t pp = 1;
  uint32_t tp = 1;
  uint32_t ep = 1;
  uint32_t dense_tp = 0;  // 0: tp * ep; below that, programs gather
  uint32_t layers = 1;
  std::vector<LayerRange> moe_layers;     // empty: all
  std::vector<LayerRange> second_layers;  // of a second class, of geglu experts
  uint32_t hidden = 16;
  uint32_t intermediate = 12;
  uint32_t experts = 8;
  uint32_t second_experts = 0;  // of the second class; 0: as many as the first has
  uint32_t top_k = 2;
  uint32_t copies = 0;         // further copies of experts, one after the other, each on the rank after the last one
  std::vector<uint64_t> load;  // of each expert, as measured; not empty: experts are balanced, lying where they lie
  uint32_t decode_tokens = 64;
  uint32_t prefill_tokens = 64;
  uint32_t prefill_chunk = 64;
  uint32_t tile_rows = 4;
  DType dtype = DType::kF32;
  DType weight_dtype = DType::kInvalid;  // of the experts' and the shared expert's matrices; invalid: dtype
  uint32_t scale_block = 4;  // rows and columns of f8_e4m3's scale blocks, 0: one scale; others have their own
  uint32_t column_unit = 1;  // cuts of the intermediate axis and the shared width are its multiples
  WeightSource weight_source = WeightSource::kSafetensors;
  Router router = {Scoring::kSoftmax,
                   0,
                   RouteOrder::kScoreThenTopK,
                   Renormalize::kSum,
                   0,
                   {},
                   WeightPoint::kOutput,
                   Basis::kF32,
                   1,
                   0};  // a vocabulary asks for a token table
  bool router_bias = false;
  bool selection_bias = false;
  bool biases = false;  // of gate, up and down
  bool fused = false;   // gate and up, and the shared ones, in one tensor of two halves
  Activation activation = {ActivationKind::kSwiGlu, 0, 0};  // relu2: without gate
  uint32_t shared_width = 0;
  SharedGate shared_gate = SharedGate::kNone;
  SharedPlacement shared_placement = SharedPlacement::kSplit;
  Residual residual = Residual::kNone;
  Basis gate_up_basis = Basis::kF32;
  Basis down_basis = Basis::kF32;
  Basis output = Basis::kF32;
  Reduction reduction = Reduction::kOrdered;
  double exact_bound = 1024;     // of an exact reduction
  uint32_t segments = 0;         // of the intermediate axis; 0: one for each tp rank
  uint32_t shared_segments = 0;  // of the shared width; 0: one for each rank that has some
  Transport transport = Transport::kInproc;
  FailureScope failure_scope = FailureScope::kWorld;
  Attention attention;
  KvHeads kv_heads = KvHeads::kCut;
  OtherWeights other_weights;
  Repack repack = Repack::kNone;
  uint64_t repacked_bytes = 0;
  uint64_t capture_bytes = 0;
  uint64_t communicator_bytes = 0;
  uint64_t headroom_bytes = 0;
  uint64_t per_session_bytes = 0;
  bool priced = false;  // the mesh states its rates
  std::vector<std::string> ignored_tensors;
  std::string router_name = "layers.{layer}.router";
  std::string gate_name = "layers.{layer}.experts.{expert}.gate";
  std::string up_name = "layers.{layer}.experts.{expert}.up";
  std::string down_name = "layers.{layer}.experts.{expert}.down";
};

// `total` things over `parts`, as equal as possible, larger first: the ends of the parts.
std::vector<uint32_t> EvenEnds(uint32_t total, uint32_t parts);

// Experts and columns are owned in contiguous, even runs; each value has a buffer of its own. One layer
// class, or two.
Plan BuildPlan(const PlanNumbers& numbers);

// Seals and opens it. A plan that the gates refuse ends the test program with the refusal.
SealedPlan Seal(const Plan& plan);
inline SealedPlan BuildSealedPlan(const PlanNumbers& numbers) { return Seal(BuildPlan(numbers)); }

}  // namespace meshseal::support

#endif  // MESHSEAL_TESTS_SUPPORT_PLAN_BUILDER_H_
