// One MoE block in every stored format, against its outputs in float64 (tests/data/moe-blocks); cut, sharded and split
// checkpoints against whole ones.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/import/import_model.h"
#include "compiler/text/render.h"
#include "nlohmann/json.hpp"
#include "schema/gguf.h"
#include "tests/oracle/deployed_model.h"
#include "tests/runtime/oracle.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/test_data.h"

namespace meshseal::oracle {
namespace {

namespace fs = std::filesystem;
using support::RelativeDifference;

constexpr uint32_t kTokens = 5;
constexpr double kBound = 1e-5;

fs::path Blocks() { return MESHSEAL_TEST_DATA "/moe-blocks"; }
fs::path Containers() { return MESHSEAL_TEST_DATA "/containers"; }

template <class T>
std::vector<T> Numbers(const std::string& name) {
  const std::string bytes = support::TestData("moe-blocks/" + name);
  std::vector<T> numbers(bytes.size() / sizeof(T));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(T));
  return numbers;
}

std::vector<float> InputOf(uint32_t hidden) { return Numbers<float>(absl::StrCat("x", hidden, ".f32")); }

// A block's numbers and where it lies in the files.
struct Block {
  uint32_t hidden = 64;
  uint32_t width = 64;
  uint32_t experts = 4;
  uint32_t top_k = 2;
  const char* source = "gguf";
  std::string scoring = "softmax";
  std::string tensors;  // rows of the manifest
  std::string ignored;
};

std::string GgufRows(const char* gate, const char* up, const char* down) {
  const auto row = [](const char* role, const char* name, const char* dtype, const char* shape) {
    return absl::StrCat("    ", role, ": {name: \"blk.{layer}.", name, ".weight\", dtype: ", dtype, ", shape: [", shape,
                        "]}\n");
  };
  return absl::StrCat(row("router", "ffn_gate_inp", "f32", "experts, hidden"),
                      row("gate", "ffn_gate_exps", gate, "experts, intermediate, hidden"),
                      row("up", "ffn_up_exps", up, "experts, intermediate, hidden"),
                      row("down", "ffn_down_exps", down, "experts, hidden, intermediate"));
}

Block Gguf64(const char* gate, const char* up, const char* down) {
  Block block;
  block.tensors = GgufRows(gate, up, down);
  return block;
}

Block Gguf256(const char* gate, const char* up, const char* down) {
  Block block = Gguf64(gate, up, down);
  block.hidden = 256;
  block.width = 256;
  block.experts = 2;
  block.top_k = 1;
  return block;
}

// The files have no attention, so `import gguf` does not take them.
std::string ManifestOf(const Block& block) {
  return absl::StrCat(R"(meshseal: 1
model:
  name: block
  family: qwen3_moe
  hidden_size: )",
                      block.hidden, R"(
  layers: 1
  attention: {kind: other}
  other_weights: 0B
moe:
  layers: all
  experts: )",
                      block.experts, "\n  experts_per_token: ", block.top_k, "\n  intermediate_size: ", block.width,
                      "\n  router:\n    scoring: ", block.scoring, R"(
    order: score_then_topk
    renormalize: )",
                      block.scoring == "precomputed" ? "none" : "sum", R"(
    scale: 1.0
    logit_bias: none
    selection_bias: none
    groups: none
    weight_applied: output
    input_dtype: f32
    token_table: none
  activation: {kind: swiglu}
  gated: true
  shared_expert: none
  residual: none
weights:
  source: )",
                      block.source, "\n  tensors:\n", block.tensors, "  ignored: [", block.ignored, R"(]
collectives:
  - {after: combine, op: sum, over: expert_group}
)");
}

// Runs every world, which must agree to the last bit where only experts are apart; the output of the first.
Output RunWorlds(const std::string& who, const fs::path& model, const fs::path& weights, uint32_t hidden,
                 const std::vector<World>& worlds, runtime::Routing routing = {}) {
  Output first;
  for (const World world : worlds) {
    SCOPED_TRACE(absl::StrCat(who, ", ", TextOf(world)));
    const absl::StatusOr<std::unique_ptr<runtime::Session>> session = OpenModel(model, weights, world, kTokens);
    EXPECT_TRUE(session.ok()) << session.status();
    if (!session.ok()) return {};
    const Output output = RunLayer(**session, 0, Phase::kPrefill, InputOf(hidden), {}, routing);
    if (first.hidden.empty()) first = output;
    EXPECT_EQ(output.experts, first.experts);
    EXPECT_EQ(output.weights, first.weights);
    const double difference = RelativeDifference(output.hidden, first.hidden);
    EXPECT_LE(difference, 1e-6);
  }
  return first;
}

// Against the recorded outputs of `name`, a file of tests/data/moe-blocks or of its neighbour.
void ExpectRecorded(const std::string& name, const fs::path& listing_path, const Output& output) {
  SCOPED_TRACE(name);
  const double difference = RelativeDifference(output.hidden, Numbers<double>(name + ".y.f64"));
  std::printf("%-36s %.1e\n", name.c_str(), difference);
  EXPECT_LE(difference, kBound);
  const nlohmann::json listing =
      nlohmann::json::parse(support::TestData(fs::relative(listing_path, MESHSEAL_TEST_DATA).string()));
  std::vector<int32_t> experts;
  std::vector<double> weights;
  const nlohmann::json& reference = listing["layer_reference"];
  for (const nlohmann::json& row : reference["top_experts"]) {
    for (const nlohmann::json& expert : row) experts.push_back(expert.get<int32_t>());
  }
  for (const nlohmann::json& row : reference["top_weights"]) {
    for (const nlohmann::json& weight : row) weights.push_back(weight.get<double>());
  }
  EXPECT_EQ(output.experts, experts);
  EXPECT_LE(RelativeDifference(output.weights, weights), 1e-6);
}

std::vector<World> AllWorlds() { return {{1, 1}, {1, 2}, {2, 1}, {2, 2}}; }
// Blocks of 256 take the whole width of an expert.
std::vector<World> ExpertWorlds() { return {{1, 1}, {1, 2}}; }

TEST(StoredBlocks, GgufFormats) {
  struct Row {
    const char* file;
    Block block;
    std::vector<World> worlds;
  };
  const std::vector<Row> rows = {
      {"moe64-f16.gguf", Gguf64("f16", "f16", "f16"), AllWorlds()},
      {"moe64-q8_0.gguf", Gguf64("q8_0", "q8_0", "q8_0"), AllWorlds()},
      {"moe64-q4_0.gguf", Gguf64("q4_0", "q4_0", "q4_0"), AllWorlds()},
      {"moe64-mxfp4.gguf", Gguf64("mxfp4", "mxfp4", "mxfp4"), AllWorlds()},
      {"moe64-mix4.gguf", Gguf64("mxfp4", "nvfp4", "iq4_nl"), AllWorlds()},
      {"moe256-q4k-q5k-q6k.gguf", Gguf256("q4_k", "q5_k", "q6_k"), ExpertWorlds()},
      {"moe256-q2k-q3k-iq4xs.gguf", Gguf256("q2_k", "q3_k", "iq4_xs"), ExpertWorlds()},
      {"moe256-iq2xxs-q2k.gguf", Gguf256("iq2_xxs", "iq2_xxs", "q2_k"), ExpertWorlds()},
  };
  const support::TempFolder folder;
  for (const Row& row : rows) {
    const fs::path file = (fs::exists(Blocks() / row.file) ? Blocks() : Containers()) / row.file;
    const fs::path model = folder.path() / absl::StrCat(row.file, ".yaml");
    support::WriteFile(model, ManifestOf(row.block));
    const Output output = RunWorlds(row.file, model, file, row.block.hidden, row.worlds);
    ExpectRecorded(row.file, file.string() + ".json", output);
  }
}

// Blocks of 256 cannot be cut in two: the compiler says so instead.
TEST(StoredBlocks, ABlockOfTheInputAxisIsNotCut) {
  const support::TempFolder folder;
  const fs::path model = folder.path() / "model.yaml";
  support::WriteFile(model, ManifestOf(Gguf256("q4_k", "q5_k", "q6_k")));
  const absl::StatusOr<SealedPlan> plan = CompileModel(model, {2, 1}, kTokens);
  ASSERT_FALSE(plan.ok());
  EXPECT_TRUE(absl::StrContains(plan.status().message(),
                                "error: tensor-parallel degree 2 leaves ranks without a block: intermediate_size 256 "
                                "has 1 of 256 [cuts-keep-blocks]\n"))
      << plan.status();
}

// A folder with a configuration beside `weights`, and the manifest that is imported from both.
fs::path ImportQwen(const fs::path& folder, const nlohmann::json& fields) {
  nlohmann::json config = {{"model_type", "qwen3_moe"}, {"hidden_act", "silu"},     {"num_hidden_layers", 1},
                           {"num_attention_heads", 4},  {"num_key_value_heads", 2}, {"head_dim", 8},
                           {"decoder_sparse_step", 1},  {"norm_topk_prob", true},   {"torch_dtype", "float32"}};
  config.update(fields);
  support::WriteFile(folder / "config.json", config.dump());
  const absl::StatusOr<compiler::ImportResult> result = compiler::ImportHf(folder.string(), /*config_only=*/false);
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return {};
  EXPECT_TRUE(result->diagnostics.ok()) << compiler::RenderText(result->diagnostics);
  support::WriteFile(folder / "model.yaml", result->text);
  return folder / "model.yaml";
}

nlohmann::json Moe64() {
  return {{"hidden_size", 64}, {"moe_intermediate_size", 64}, {"num_experts", 4}, {"num_experts_per_tok", 2}};
}

TEST(StoredBlocks, ShardsGiveWhatTheWholeFileGives) {
  const support::TempFolder folder;
  const fs::path whole = folder.path() / "whole";
  const fs::path sharded = folder.path() / "sharded";
  fs::create_directories(whole);
  fs::copy_file(Blocks() / "moe64-bf16.safetensors", whole / "model.safetensors");
  fs::copy(Containers() / "sharded", sharded);
  const Output output = RunWorlds("whole", ImportQwen(whole, Moe64()), whole, 64, AllWorlds());
  ExpectRecorded("moe64-bf16.safetensors", Blocks() / "moe64-bf16.safetensors.json", output);
  const Output other = RunWorlds("sharded", ImportQwen(sharded, Moe64()), sharded, 64, AllWorlds());
  EXPECT_EQ(other.hidden, output.hidden);
  EXPECT_EQ(other.experts, output.experts);
}

TEST(StoredBlocks, Fp8BlocksWithPartsAtTheEdges) {
  const support::TempFolder folder;
  fs::copy_file(Blocks() / "moe192x160-fp8-block128.safetensors", folder.path() / "model.safetensors");
  const fs::path model = ImportQwen(
      folder.path(), {{"hidden_size", 192},
                      {"moe_intermediate_size", 160},
                      {"num_experts", 2},
                      {"num_experts_per_tok", 1},
                      {"quantization_config", {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}}}});
  // Over two ranks 128 columns and 32.
  const Output output = RunWorlds("fp8", model, folder.path(), 192, AllWorlds());
  ExpectRecorded("moe192x160-fp8-block128.safetensors", Blocks() / "moe192x160-fp8-block128.safetensors.json", output);
}

// One file of the parts' tensors.
std::string WholeOf(const std::vector<fs::path>& parts) {
  support::GgufWriter writer;
  writer.Text("general.architecture", "qwen3moe");
  for (const fs::path& part : parts) {
    const absl::StatusOr<GgufFile> file = GgufFile::Open(part);
    EXPECT_TRUE(file.ok()) << file.status();
    if (!file.ok()) return "";
    for (const TensorEntry& entry : file->entries()) {
      std::string bytes(entry.end - entry.begin, '\0');
      const absl::Status read =
          file->Read(entry.begin, absl::MakeSpan(reinterpret_cast<std::byte*>(bytes.data()), bytes.size()));
      EXPECT_TRUE(read.ok()) << read;
      writer.Tensor(entry.name, entry.dtype, std::vector<uint64_t>(entry.shape.rbegin(), entry.shape.rend()), bytes);
    }
  }
  return writer.Bytes();
}

TEST(StoredBlocks, ASplitGgufGivesWhatTheWholeFileGives) {
  const support::TempFolder folder;
  const fs::path model = folder.path() / "model.yaml";
  support::WriteFile(model, ManifestOf(Gguf64("q8_0", "q4_0", "q8_0")));
  const fs::path first = Containers() / "split" / "moe64-split-00001-of-00002.gguf";
  const fs::path whole = folder.path() / "whole.gguf";
  support::WriteFile(whole, WholeOf({first, Containers() / "split" / "moe64-split-00002-of-00002.gguf"}));
  const Output split = RunWorlds("split", model, first, 64, AllWorlds());
  const Output other = RunWorlds("whole", model, whole, 64, AllWorlds());
  ASSERT_FALSE(split.hidden.empty());
  EXPECT_EQ(split.hidden, other.hidden);
  EXPECT_EQ(split.experts, other.experts);
}

// Codes and scales as tensors of their own, gate and up interleaved, hold the same values as GGUF's blocks: with the
// routing that those had, the outputs are equal. The biases are zero.
TEST(StoredBlocks, Mxfp4InTwoContainersGivesTheSame) {
  const support::TempFolder folder;
  const fs::path gguf_model = folder.path() / "gguf.yaml";
  support::WriteFile(gguf_model, ManifestOf(Gguf64("mxfp4", "mxfp4", "mxfp4")));
  const Output expected = RunWorlds("gguf", gguf_model, Blocks() / "moe64-mxfp4.gguf", 64, AllWorlds());
  Block block;
  block.source = "safetensors";
  block.scoring = "precomputed";
  block.ignored = "\"model.layers.{layer}.mlp.router.*\"";
  constexpr const char* kExperts = "\"model.layers.{layer}.mlp.experts.";
  const auto scale = [&](const char* name) {
    return absl::StrCat("scale: {name: ", kExperts, name, "_scales\", dtype: u8, block: [1, 32], applies: multiply}");
  };
  block.tensors = absl::StrCat(
      "    gate_up: {name: ", kExperts,
      "gate_up_proj_blocks\", dtype: mxfp4, shape: [experts, 2*intermediate, hidden], ", "layout: interleaved, ",
      scale("gate_up_proj"), "}\n    gate_up_bias: {name: ", kExperts,
      "gate_up_proj_bias\", dtype: bf16, shape: [experts, 2*intermediate], layout: interleaved}\n    down: {name: ",
      kExperts, "down_proj_blocks\", dtype: mxfp4, shape: [experts, hidden, intermediate], ", scale("down_proj"),
      "}\n    down_bias: {name: ", kExperts, "down_proj_bias\", dtype: bf16, shape: [experts, hidden]}\n");
  const fs::path model = folder.path() / "model.yaml";
  support::WriteFile(model, ManifestOf(block));
  const fs::path weights = folder.path() / "weights";
  fs::create_directories(weights);
  fs::copy_file(Containers() / "moe64-mxfp4-gptoss.safetensors", weights / "model.safetensors");
  const Output output = RunWorlds("safetensors", model, weights, 64, AllWorlds(), {expected.experts, expected.weights});
  ASSERT_FALSE(output.hidden.empty());
  EXPECT_EQ(output.hidden, expected.hidden);
}

}  // namespace
}  // namespace meshseal::oracle
