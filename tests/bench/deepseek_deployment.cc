#include "tests/bench/deepseek_deployment.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "compiler/driver/compile.h"
#include "compiler/text/render.h"

namespace meshseal::bench {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kDevicesOfNode = 8;
constexpr uint32_t kTokens = 4096;  // of a load profile

[[noreturn]] void Die(const std::string& text) {
  std::cerr << text << "\n";
  std::exit(1);
}

std::string ModelText(const Size& size) {
  std::ifstream in(fs::path(MESHSEAL_MANIFESTS) / "models" / "deepseek-v3.yaml", std::ios::binary);
  const std::string shipped((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  // Without the rules for heads and router groups, which would stop at 128 ranks and 16 experts.
  return absl::StrReplaceAll(shipped,
                             {{"attention: {heads: 128, kv_heads: 128, head_dim: 192}", "attention: {kind: other}"},
                              {"groups: {count: 8, keep: 4, score: top2_sum}", "groups: none"},
                              {"  experts: 256\n", absl::StrCat("  experts: ", size.experts, "\n")}});
}

std::string MeshText(const Size& size) {
  const uint32_t nodes = (size.Ranks() + kDevicesOfNode - 1) / kDevicesOfNode;
  const uint32_t devices = std::min(size.Ranks(), kDevicesOfNode);
  std::string text =
      "meshseal: 1\nmesh:\n  name: bench\n  device_kinds:\n"
      "    h200: {memory: 1024TiB, memory_kind: discrete, bandwidth: 4800GB/s, bf16: 989TFLOP/s, fp8: 1978TFLOP/s, "
      "communicator_reserve: 392MiB}\n  nodes:\n";
  for (uint32_t node = 0; node < nodes; ++node) {
    absl::StrAppend(&text, "    - {name: n", node, ", devices: {kind: h200, count: ", devices, "}}\n");
  }
  absl::StrAppend(&text, "  islands:\n");
  for (uint32_t node = 0; node < nodes; ++node) {
    absl::StrAppend(&text, "    - {nodes: [n", node, "], link: {bandwidth: 450GB/s, latency: 3us}}\n");
  }
  if (nodes > 1) absl::StrAppend(&text, "  between_islands: {bandwidth: 50GB/s, latency: 10us}\n");
  return absl::StrCat(text, "  collectives: {backend: nccl, ranks: any}\n");
}

std::string DeploymentText(const Size& size) {
  const uint32_t group = size.tp * size.ep;
  const uint32_t dense = std::min(group, kDevicesOfNode);
  return absl::StrCat(
      "meshseal: 1\ndeployment:\n  model: model.yaml\n  mesh: mesh.yaml\n  parallel: {dp: ", size.dp, ", pp: ", size.pp,
      ", tp: ", size.tp, ", ep: ", size.ep, ", dense: {tp: ", dense,
      "}}\n  placement: {experts: ", size.balanced ? "{balanced: {profile: load.json}}" : "contiguous",
      ", uneven: refuse}\n  shared_expert: owner\n  stages: balanced\n"
      "  limits: {decode_tokens: 64, decode_buckets: [1, 8, 64], prefill_tokens: 8192, prefill_chunk: 2048, ",
      dense < group ? "rank_tokens: {decode: 64, prefill: 2048}, " : "",
      "sessions: 1, per_session: 0B}\n  headroom: 4GiB\n  reduction: ordered\n"
      "  activation_basis: {gate_up: bf16, down: bf16}\n  output_dtype: bf16\n  failure_scope: world\n");
}

// Loads that differ from layer to layer: half of the slots are even, the rest follow a walk over the experts.
std::string ProfileText(const Size& size) {
  const uint64_t slots = uint64_t{kTokens} * 8;
  std::vector<std::string> layers;
  uint64_t state = 1;
  for (uint32_t layer = 3; layer < 3 + kMoeLayers; ++layer) {
    std::vector<uint64_t> counts(size.experts, slots / 2 / size.experts);
    uint64_t left = slots - counts.front() * size.experts;
    while (left > 0) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const uint64_t more = std::min<uint64_t>(left, 1 + (state >> 60));
      counts[(state >> 33) % size.experts] += more;
      left -= more;
    }
    layers.push_back(absl::StrCat("\"", layer, "\": [", absl::StrJoin(counts, ", "), "]"));
  }
  return absl::StrCat("{\"version\": 1, \"plan\": \"", std::string(64, '0'), "\", \"tokens\": ", kTokens,
                      ", \"layers\": {", absl::StrJoin(layers, ", "), "}}\n");
}

}  // namespace

Size SizeOf(uint32_t ranks) {
  Size size;
  size.ep = std::min(ranks, 256u);
  for (uint32_t* degree : {&size.dp, &size.pp, &size.tp}) {
    if (size.Ranks() < ranks) *degree = 2;
  }
  if (size.Ranks() < ranks) size.dp *= ranks / size.Ranks();
  return size;
}

std::string WriteDeepSeek(const Size& size) {
  const fs::path folder = fs::temp_directory_path() / absl::StrCat("meshseal_bench_", size.Ranks(), "_", size.ep, "_",
                                                                   size.experts, size.balanced ? "_balanced" : "");
  fs::create_directories(folder);
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(folder / name, std::ios::binary) << text;
  };
  write("model.yaml", ModelText(size));
  write("mesh.yaml", MeshText(size));
  write("deployment.yaml", DeploymentText(size));
  if (size.balanced) write("load.json", ProfileText(size));
  return (folder / "deployment.yaml").string();
}

std::string CompileOrDie(const std::string& deployment) {
  compiler::CompileRequest request;
  request.deployment = deployment;
  absl::StatusOr<compiler::CompileResult> result = compiler::Compile(request);
  if (!result.ok()) Die(result.status().ToString());
  if (!result->diagnostics.ok()) Die(compiler::RenderText(result->diagnostics));
  return std::move(result->sealed);
}

}  // namespace meshseal::bench
