#include "tests/oracle/deployed_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "compiler/driver/compile.h"
#include "compiler/text/render.h"
#include "compiler/text/source.h"
#include "schema/status_macros.h"
#include "schema/terms.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/test_data.h"

namespace meshseal::oracle {
namespace {

constexpr uint32_t kPrefillChunk = 5;

std::string MeshText(uint32_t ranks) {
  return absl::StrCat(R"(meshseal: 1
mesh:
  name: host
  device_kinds:
    cpu: {memory: 256MiB, memory_kind: host}
  nodes:
    - {name: host, devices: {kind: cpu, count: )",
                      ranks, R"(}}
  islands:
    - {nodes: [host], link: {bandwidth: 10GB/s, latency: 1us}}
  collectives: {backend: inproc, ranks: any}
  emulated: true
)");
}

std::string DeploymentText(const std::string& model, World world, uint32_t tokens, bool shared_expert,
                           const std::string& reduction) {
  return absl::StrCat(R"(meshseal: 1
deployment:
  model: ")",
                      model, R"("
  mesh: mesh.yaml
  parallel: {dp: 1, pp: 1, tp: )",
                      world.tp, ", ep: ", world.ep, ", dense: {tp: ", world.tp * world.ep, R"(, kv_heads: replicate}}
  placement: {experts: contiguous, uneven: refuse, uneven_cuts: allow}
)",
                      shared_expert ? "  shared_expert: split\n" : "", R"(  stages: balanced
  limits: {decode_tokens: )",
                      tokens, ", decode_buckets: [", tokens, "], prefill_tokens: ", tokens,
                      ", prefill_chunk: ", kPrefillChunk, R"(, sessions: 1, per_session: 0B}
  headroom: 1MiB
  reduction: )",
                      reduction, R"(
  activation_basis: {gate_up: f32, down: f32}
  output_dtype: f32
  failure_scope: world
)");
}

}  // namespace

absl::StatusOr<SealedPlan> CompileModel(const std::filesystem::path& model, World world, uint32_t tokens,
                                        const std::string& reduction) {
  const support::TempFolder folder;
  MESHSEAL_ASSIGN_OR_RETURN(const std::unique_ptr<const compiler::SourceFile> text,
                            compiler::SourceFile::Read(model.string()));
  const bool shared_expert = absl::StrContains(text->text(), "\n  shared_expert: {");
  support::WriteFile(folder.path() / "mesh.yaml", MeshText(world.tp * world.ep));
  support::WriteFile(folder.path() / "deployment.yaml", DeploymentText(std::filesystem::absolute(model).string(), world,
                                                                       tokens, shared_expert, reduction));
  compiler::CompileRequest request;
  request.deployment = (folder.path() / "deployment.yaml").string();
  MESHSEAL_ASSIGN_OR_RETURN(const compiler::CompileResult result, compiler::Compile(request));
  if (!result.diagnostics.ok()) return absl::InvalidArgumentError(compiler::RenderText(result.diagnostics));
  return SealedPlan::Open(result.sealed, Policy{});
}

absl::StatusOr<std::unique_ptr<runtime::Session>> OpenModel(const std::filesystem::path& model,
                                                            const std::filesystem::path& weights, World world,
                                                            uint32_t tokens, const std::string& reduction) {
  MESHSEAL_ASSIGN_OR_RETURN(SealedPlan plan, CompileModel(model, world, tokens, reduction));
  runtime::SessionOptions options;
  options.weights = {weights};
  options.unverified_weights = true;
  return runtime::Session::Create(std::move(plan), options);
}

Output RunLayer(runtime::Session& session, uint32_t layer, Phase phase, absl::Span<const float> hidden,
                absl::Span<const int32_t> token_ids, runtime::Routing routing) {
  const std::shared_ptr<const SealedPlan> sealed = session.plan();
  const Plan& plan = sealed->plan();
  bool by_table = false;
  for (const LayerClass& c : plan.layer_classes) {
    const bool has_layer = std::any_of(c.layers.begin(), c.layers.end(), [&](const LayerRange& range) {
      return range.first <= layer && layer < range.last;
    });
    const bool has_table = std::any_of(c.tensors.begin(), c.tensors.end(), [](const TensorClass& tensor) {
      return tensor.role == TensorRole::kTokenTable;
    });
    by_table = by_table || (has_layer && has_table);
  }
  Output output;
  output.hidden.assign(hidden.size(), std::numeric_limits<float>::quiet_NaN());
  runtime::RunRequest request;
  request.layer = layer;
  request.phase = phase;
  request.tokens = static_cast<uint32_t>(hidden.size() / plan.hidden);
  request.hidden = hidden;
  request.output = absl::MakeSpan(output.hidden);
  if (by_table) request.token_ids = token_ids;
  request.routing = routing;
  runtime::RunResult result;
  const absl::Status status = session.Run(request, &result);
  EXPECT_TRUE(status.ok()) << status;
  if (!status.ok()) return {};
  output.experts = std::move(result.expert_ids);
  output.weights = std::move(result.expert_weights);
  return output;
}

}  // namespace meshseal::oracle
