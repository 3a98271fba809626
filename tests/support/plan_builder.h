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
  uint32_t layers = 1;
  std::vector<LayerRange> moe_layers;  // empty: all
  uint32_t hidden = 16;
  uint32_t intermediate = 12;
  uint32_t experts = 8;
  uint32_t top_k = 2;
  uint32_t decode_tokens = 64;
  uint32_t prefill_tokens = 64;
  uint32_t prefill_chunk = 64;
  uint32_t tile_rows = 4;
  DType dtype = DType::kF32;
  Router router = {
      Scoring::kSoftmax, RouteOrder::kScoreThenTopK, Renormalize::kSum, WeightPoint::kOutput, Basis::kF32, 1};
  Residual residual = Residual::kNone;
  Basis gate_up_basis = Basis::kF32;
  Basis down_basis = Basis::kF32;
  Basis output = Basis::kF32;
  Transport transport = Transport::kInproc;
  FailureScope failure_scope = FailureScope::kWorld;
  std::vector<std::string> ignored_tensors;
  std::string router_name = "layers.{layer}.router";
  std::string gate_name = "layers.{layer}.experts.{expert}.gate";
  std::string up_name = "layers.{layer}.experts.{expert}.up";
  std::string down_name = "layers.{layer}.experts.{expert}.down";
};

// `total` things over `parts`, as equal as possible, larger first: the ends of the parts.
std::vector<uint32_t> EvenEnds(uint32_t total, uint32_t parts);

// Experts and columns are owned in contiguous, even runs; each value has a buffer of its own. One layer
// class.
Plan BuildPlan(const PlanNumbers& numbers);

// Seals and opens it. A plan that the gates refuse ends the test program with the refusal.
SealedPlan Seal(const Plan& plan);
inline SealedPlan BuildSealedPlan(const PlanNumbers& numbers) { return Seal(BuildPlan(numbers)); }

}  // namespace meshseal::support

#endif  // MESHSEAL_TESTS_SUPPORT_PLAN_BUILDER_H_
