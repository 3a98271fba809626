// Layers over pipeline stages, as documents and a sealed plan have them: the first (layers mod stages) get one more.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "compiler/driver/compile.h"
#include "compiler/text/render.h"
#include "schema/sealed_plan.h"
#include "tests/support/open_unsigned.h"

namespace meshseal::properties {
namespace {

namespace fs = std::filesystem;

// The ends of the stages of `layers` layers in `stages` balanced stages.
std::vector<uint32_t> StageEndsOf(uint32_t layers, uint32_t stages) {
  const fs::path folder = fs::path(testing::TempDir()) / "stages_test";
  fs::remove_all(folder);
  fs::create_directories(folder);
  std::ofstream(folder / "model.yaml") << R"(meshseal: 1
model: {name: m, family: f, hidden_size: 8, layers: )"
                                       << layers << R"(, attention: {kind: other}, other_weights: 0B}
moe:
  layers: all
  experts: 2
  experts_per_token: 1
  intermediate_size: 8
  router: {scoring: softmax, order: score_then_topk, renormalize: none, scale: 1.0, logit_bias: none, selection_bias: none, groups: none, weight_applied: output, input_dtype: f32, token_table: none}
  activation: {kind: swiglu}
  gated: true
  shared_expert: none
  residual: none
weights:
  source: safetensors
  tensors:
    router: {name: "{layer}.router", dtype: f32, shape: [experts, hidden]}
    gate: {name: "{layer}.gate", dtype: f32, shape: [experts, intermediate, hidden]}
    up: {name: "{layer}.up", dtype: f32, shape: [experts, intermediate, hidden]}
    down: {name: "{layer}.down", dtype: f32, shape: [experts, hidden, intermediate]}
  ignored: []
collectives:
  - {after: combine, op: sum, over: expert_group}
)";
  std::ofstream(folder / "mesh.yaml") << R"(meshseal: 1
mesh:
  name: m
  device_kinds: {k: {memory: 1GiB, memory_kind: discrete}}
  nodes:
    - {name: n, devices: {kind: k, count: )"
                                      << stages << R"(}}
  islands:
    - {nodes: [n], link: {bandwidth: 10GB/s, latency: 1us}}
  collectives: {backend: inproc, ranks: any}
)";
  std::ofstream(folder / "deployment.yaml") << R"(meshseal: 1
deployment:
  model: model.yaml
  mesh: mesh.yaml
  parallel: {dp: 1, pp: )" << stages << R"(, tp: 1, ep: 1, dense: {tp: 1}}
  placement: {experts: contiguous, uneven: refuse}
  stages: balanced
  limits: {decode_tokens: 1, decode_buckets: [1], prefill_tokens: 1, prefill_chunk: 1, sessions: 1, per_session: 0B}
  headroom: 0B
  reduction: ordered
  activation_basis: {gate_up: f32, down: f32}
  output_dtype: f32
  failure_scope: world
)";
  compiler::CompileRequest request;
  request.deployment = (folder / "deployment.yaml").string();
  const absl::StatusOr<compiler::CompileResult> result = compiler::Compile(request);
  fs::remove_all(folder);
  if (!result.ok() || !result->diagnostics.ok()) {
    ADD_FAILURE() << (result.ok() ? compiler::RenderText(result->diagnostics) : result.status().ToString());
    return {};
  }
  const absl::StatusOr<SealedPlan> plan = support::OpenUnsigned(result->sealed);
  if (!plan.ok()) {
    ADD_FAILURE() << plan.status();
    return {};
  }
  return plan->plan().stage_ends;
}

TEST(Stages, TheFirstGetOneMore) {
  EXPECT_EQ(StageEndsOf(30, 4), (std::vector<uint32_t>{8, 16, 23, 30}));
  EXPECT_EQ(StageEndsOf(48, 5), (std::vector<uint32_t>{10, 20, 30, 39, 48}));
}

}  // namespace
}  // namespace meshseal::properties
