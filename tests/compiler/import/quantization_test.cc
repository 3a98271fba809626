#include "compiler/import/quantization.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "schema/reason.h"

namespace meshseal::compiler {
namespace {

ConfigFields Fields(std::string file, absl::string_view text) { return *ConfigFields::Parse(std::move(file), text); }

absl::StatusOr<Quantization> Read(absl::string_view type, absl::string_view config_text,
                                  absl::string_view hf_text = "") {
  const ConfigFields config = Fields("config.json", config_text);
  std::optional<ConfigFields> hf;
  if (!hf_text.empty()) hf = Fields("hf.json", hf_text);
  return Quantization::Read(*FamilyOfModelType(type), config, config, hf);
}

std::string Said(absl::string_view type, absl::string_view config, absl::string_view hf = "") {
  const absl::StatusOr<Quantization> read = Read(type, config, hf);
  if (read.ok()) return "";
  EXPECT_EQ(ReasonOf(read.status()), Reason::kImport);
  return std::string(read.status().message());
}

constexpr const char* kKnown = "known are fp8 with weight_block_size, mxfp4, and modelopt's NVFP4, FP8 and mixtures";
constexpr StoredForm kPlain = {Storage::kPlain, false};

TEST(Quantization, NoneIsPlain) {
  const Quantization none = *Read("mixtral", "{}");
  EXPECT_EQ(none.FormOf("model.layers.0.block_sparse_moe.experts.0.w1.weight", true), kPlain);
  EXPECT_FALSE(none.fp8_block().has_value());
  EXPECT_EQ(none.place(), "config.json");
}

TEST(Quantization, Fp8BlocksAndModulesByEndOrStart) {
  const Quantization fp8 =
      *Read("minimax_m2", R"({"quantization_config": {"quant_method": "fp8", "fmt": "float8_e4m3fn",
      "weight_block_size": [128, 64], "modules_to_not_convert": ["gate", "model.layers.3", "x.*.y"]}})");
  EXPECT_EQ(fp8.fp8_block(), (ScaleBlock{128, 64}));
  EXPECT_EQ(fp8.FormOf("model.layers.0.block_sparse_moe.experts.0.w1.weight", true),
            (StoredForm{Storage::kFp8Block, false}));
  EXPECT_EQ(fp8.FormOf("model.layers.0.block_sparse_moe.gate.weight", false), kPlain);
  EXPECT_EQ(fp8.FormOf("model.layers.0.mlp.gate_proj.weight", false).storage, Storage::kFp8Block);  // another component
  EXPECT_EQ(fp8.FormOf("model.layers.3.mlp.experts.0.w1.weight", true), kPlain);
  EXPECT_EQ(fp8.FormOf("model.layers.31.mlp.experts.0.w1.weight", true).storage, Storage::kFp8Block);
  EXPECT_EQ(fp8.FormOf("x.5.y.weight", true), kPlain);
  EXPECT_EQ(fp8.place(), "config.json: quantization_config");
}

TEST(Quantization, ModeloptExcludesAndMixtures) {
  const Quantization one = *Read("qwen3_moe", "{}", R"({"quantization": {"quant_algo": "NVFP4", "group_size": 16,
      "exclude_modules": ["model.layers.1*", "*.shared_expert*"]}})");
  EXPECT_EQ(one.FormOf("model.layers.0.mlp.experts.0.up_proj.weight", true), (StoredForm{Storage::kNvfp4, true}));
  EXPECT_EQ(one.FormOf("model.layers.12.mlp.experts.0.up_proj.weight", true), kPlain);
  EXPECT_EQ(one.FormOf("model.layers.0.mlp.shared_expert.up_proj.weight", false), kPlain);

  const Quantization mixed = *Read("qwen3_moe", R"({"quantization_config": {"quant_method": "modelopt",
      "quant_algo": "MIXED_PRECISION", "ignore": ["mtp*"], "quantized_layers": {
      "model.layers.0.mlp.experts": {"quant_algo": "W4A16_NVFP4", "group_size": 16},
      "model.layers.0.mlp.shared_expert.up_proj": {"quant_algo": "FP8"}}}})");
  EXPECT_EQ(mixed.FormOf("model.layers.0.mlp.experts.7.up_proj.weight", true), (StoredForm{Storage::kNvfp4, false}));
  EXPECT_EQ(mixed.FormOf("model.layers.0.mlp.experts.gate_up_proj", true), (StoredForm{Storage::kNvfp4, false}));
  EXPECT_EQ(mixed.FormOf("model.layers.0.mlp.shared_expert.up_proj.weight", false),
            (StoredForm{Storage::kFp8Tensor, true}));
  EXPECT_EQ(mixed.FormOf("model.layers.0.mlp.shared_expert.down_proj.weight", false), kPlain);
  EXPECT_EQ(mixed.FormOf("model.layers.1.mlp.experts.7.up_proj.weight", true), kPlain);
}

TEST(Quantization, ExpertsWithAFormOfTheirOwn) {
  const Quantization oss = *Read("gpt_oss", R"({"quantization_config": {"quant_method": "mxfp4",
      "modules_to_not_convert": ["model.layers.*.mlp.router"]}})");
  EXPECT_EQ(oss.FormOf("model.layers.0.mlp.experts.down_proj_blocks", true), (StoredForm{Storage::kMxfp4, false}));
  EXPECT_EQ(oss.FormOf("model.layers.0.mlp.router.weight", false), kPlain);
  constexpr const char* kFp8 = R"("quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]})";
  const Quantization v4 = *Read("deepseek_v4", absl::StrCat(R"({"expert_dtype": "fp4", )", kFp8, "}"));
  EXPECT_EQ(v4.FormOf("layers.0.ffn.experts.0.w1.weight", true).storage, Storage::kMxfp4);
  EXPECT_EQ(v4.FormOf("layers.0.ffn.shared_experts.w1.weight", false).storage, Storage::kFp8Block);
  const Quantization base = *Read("deepseek_v4", absl::StrCat(R"({"expert_dtype": "fp8", )", kFp8, "}"));
  EXPECT_EQ(base.FormOf("layers.0.ffn.experts.0.w1.weight", true).storage, Storage::kFp8Block);
  EXPECT_EQ(
      Said("deepseek_v4", absl::StrCat(R"({"expert_dtype": "int4", )", kFp8, "}")),
      "config.json: expert_dtype: found \"int4\" in the family deepseek_v4, known are \"fp4\" and, where all weights "
      "are so, \"fp8\"");
}

TEST(Quantization, RefusesWhatIsNotKnownByName) {
  const auto config = [](absl::string_view fields) {
    return absl::StrCat("{\"quantization_config\": {", fields, "}}");
  };
  EXPECT_EQ(Said("mixtral", config(R"("quant_method": "awq")")),
            absl::StrCat("config.json: quantization_config.quant_method: unknown method 'awq'; ", kKnown));
  EXPECT_EQ(Said("mixtral", config(R"("quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups":
                {"group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 32}}})")),
            absl::StrCat("config.json: quantization_config.format: INT4 weights in the format 'pack-quantized' of "
                         "'compressed-tensors' are not known; ",
                         kKnown));
  EXPECT_EQ(Said("mixtral", config(R"("quant_method": "fp8", "fmt": "e5m2", "weight_block_size": [1, 1])")),
            "config.json: quantization_config.fmt: unknown format 'e5m2', known is e4m3");
  EXPECT_EQ(
      Said("mixtral", config(R"("quant_method": "fp8")")),
      "config.json: quantization_config.weight_block_size: absent; it is needed as the rows and columns of a scale");
  EXPECT_EQ(Said("mixtral", config(R"("quant_method": "fp8", "weight_block_size": [128])")),
            "config.json: quantization_config.weight_block_size: found [128], expected two sizes");
  EXPECT_EQ(Said("mixtral", config(R"("quant_method": "modelopt", "quant_algo": "W8A8")")),
            absl::StrCat("config.json: quantization_config.quant_algo: unknown algorithm 'W8A8'; ", kKnown));
  EXPECT_EQ(Said("mixtral", config(R"("quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 32)")),
            "config.json: quantization_config.group_size: found 32, NVFP4 has 16");
}

TEST(Quantization, KnowsWhetherSingleExpertsAreNamed) {
  const auto apart = [](absl::string_view module) {
    return Read("qwen3_moe", "{}",
                absl::StrCat(R"({"quantization": {"quant_algo": "NVFP4", "exclude_modules": [")", module, R"("]}})"))
        ->TellsExpertsApart();
  };
  EXPECT_TRUE(apart("model.layers.0.mlp.experts.7.up_proj"));
  EXPECT_TRUE(apart("experts.0"));
  EXPECT_FALSE(apart("model.layers.0.mlp.experts"));
  EXPECT_FALSE(apart("model.layers.0.mlp.experts.*.up_proj"));
  EXPECT_FALSE(apart("model.layers.7.mlp.shared_experts.up_proj"));
}

TEST(Quantization, RefusesTwoFilesThatContradictEachOther) {
  constexpr const char* kNvfp4 = R"({"quantization": {"quant_algo": "NVFP4"}})";
  EXPECT_EQ(Said("mixtral", R"({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}})", kNvfp4),
            "");
  EXPECT_EQ(Said("mixtral", R"({"quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8"}})", kNvfp4),
            "hf.json: quantization.quant_algo: found 'NVFP4', config.json says 'FP8'");
  EXPECT_EQ(Said("mixtral", R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [8, 8]}})", kNvfp4),
            "hf.json: quantization.quant_algo: found 'NVFP4', config.json says nothing");
}

}  // namespace
}  // namespace meshseal::compiler
