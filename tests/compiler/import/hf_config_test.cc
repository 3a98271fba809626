#include "compiler/import/hf_config.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/write_manifest.h"
#include "nlohmann/json.hpp"
#include "schema/reason.h"

namespace meshseal::compiler {
namespace {

using Json = nlohmann::json;

// Fields that all configurations here share.
Json Usual(absl::string_view type) {
  return Json{{"model_type", std::string(type)}, {"hidden_act", "silu"},     {"hidden_size", 64},
              {"num_hidden_layers", 6},          {"num_attention_heads", 4}, {"num_key_value_heads", 2},
              {"num_experts_per_tok", 2},        {"torch_dtype", "bfloat16"}};
}

Json With(Json config, const Json& fields) {
  config.update(fields);
  return config;
}

Json Mixtral() { return With(Usual("mixtral"), {{"num_local_experts", 8}, {"intermediate_size", 32}}); }
Json Qwen3() {
  return With(Usual("qwen3_moe"), {{"num_experts", 8},
                                   {"moe_intermediate_size", 32},
                                   {"decoder_sparse_step", 1},
                                   {"norm_topk_prob", true},
                                   {"head_dim", 8}});
}
Json DeepseekV2() {
  return With(Usual("deepseek_v2"), {{"n_routed_experts", 8},
                                     {"moe_intermediate_size", 32},
                                     {"n_shared_experts", 2},
                                     {"first_k_dense_replace", 1},
                                     {"routed_scaling_factor", 16.0},
                                     {"topk_method", "group_limited_greedy"},
                                     {"n_group", 4},
                                     {"topk_group", 2},
                                     {"qk_nope_head_dim", 12},
                                     {"qk_rope_head_dim", 4}});
}
Json DeepseekV3() {
  return With(Usual("deepseek_v3"), {{"n_routed_experts", 8},
                                     {"moe_intermediate_size", 32},
                                     {"n_shared_experts", 1},
                                     {"first_k_dense_replace", 3},
                                     {"moe_layer_freq", 1},
                                     {"routed_scaling_factor", 2.5},
                                     {"norm_topk_prob", true},
                                     {"n_group", 4},
                                     {"topk_group", 2},
                                     {"num_nextn_predict_layers", 1},
                                     {"qk_nope_head_dim", 12},
                                     {"qk_rope_head_dim", 4}});
}
Json DeepseekV4() {
  return With(Usual("deepseek_v4"), {{"n_routed_experts", 8},
                                     {"moe_intermediate_size", 32},
                                     {"n_shared_experts", 1},
                                     {"routed_scaling_factor", 1.5},
                                     {"norm_topk_prob", true},
                                     {"scoring_func", "sqrtsoftplus"},
                                     {"num_hash_layers", 3},
                                     {"vocab_size", 1000},
                                     {"swiglu_limit", 10.0}});
}
Json GptOss() {
  return With(Usual("gpt_oss"), {{"num_local_experts", 8}, {"intermediate_size", 32}, {"swiglu_limit", 7.0}});
}
Json Llama4() {
  Json text = With(Usual("llama4_text"), {{"num_local_experts", 8},
                                          {"intermediate_size", 32},
                                          {"interleave_moe_layer_step", 2},
                                          {"num_experts_per_tok", 1}});
  return Json{{"model_type", "llama4"}, {"text_config", text}};
}

absl::StatusOr<ModelFacts> Read(const Json& config) {
  return ReadHfConfig(*ConfigFields::Parse("config.json", config.dump()), "m");
}

std::string Said(const Json& config) {
  const absl::StatusOr<ModelFacts> facts = Read(config);
  if (facts.ok()) return "";
  EXPECT_EQ(ReasonOf(facts.status()), Reason::kImport);
  return std::string(facts.status().message());
}

std::string Layers(const ModelFacts& facts) {
  std::string text;
  for (const LayerRange& range : facts.manifest.moe_layers.value)
    absl::StrAppend(&text, "[", range.first, ",", range.last, ")");
  return text;
}

// The MoE part of what a configuration says.
std::string Moe(const Json& config) {
  const absl::StatusOr<ModelFacts> facts = Read(config);
  return facts.ok() ? absl::StrCat(Layers(*facts), " ", MoeLine(facts->manifest.groups[0].moe))
                    : std::string(facts.status().message());
}

// "LAYERS {...}" of the parts that differ by family.
std::string Line(absl::string_view layers, absl::string_view top_k, absl::string_view activation,
                 absl::string_view shared, absl::string_view router, absl::string_view table = "[]") {
  return absl::StrCat(layers, " {experts_per_token: ", top_k, ", intermediate_size: 32, activation: ", activation,
                      ", gated: true, shared_expert: ", shared, ", experts: 8, router: {", router,
                      "}, token_table: ", table, ", vocabulary: ", table == "[]" ? 0 : 1000, ", residual: none}");
}

constexpr const char* kSwiGlu = "{kind: swiglu}";
constexpr const char* kPlainTail =
    "logit_bias: none, selection_bias: none, groups: none, weight_applied: output, input_dtype: bf16";

std::string Softmax(absl::string_view renormalize) {
  return absl::StrCat("scoring: softmax, order: score_then_topk, renormalize: ", renormalize, ", scale: 1.0, ",
                      kPlainTail);
}

TEST(HfConfig, SoftmaxFamilies) {
  EXPECT_EQ(Moe(Mixtral()), Line("[0,6)", "2", kSwiGlu, "none", Softmax("sum")));
  EXPECT_EQ(Moe(Qwen3()), Line("[0,6)", "2", kSwiGlu, "none", Softmax("sum")));
  EXPECT_EQ(Moe(With(Qwen3(), {{"norm_topk_prob", false}})), Line("[0,6)", "2", kSwiGlu, "none", Softmax("none")));
  const Json shared = {{"shared_expert_intermediate_size", 48}};
  EXPECT_EQ(Moe(With(With(Qwen3(), shared), {{"model_type", "qwen2_moe"}, {"norm_topk_prob", false}})),
            Line("[0,6)", "2", kSwiGlu, "{width: 48, gate: sigmoid, activation: same}", Softmax("none")));
  EXPECT_EQ(Moe(With(With(Qwen3(), shared), {{"model_type", "qwen3_next"}})),
            Line("[0,6)", "2", kSwiGlu, "{width: 48, gate: sigmoid, activation: same}", Softmax("sum")));
  EXPECT_EQ(Moe(With(Usual("olmoe"), {{"num_experts", 8}, {"intermediate_size", 32}, {"norm_topk_prob", false}})),
            Line("[0,6)", "2", kSwiGlu, "none", Softmax("none")));
  EXPECT_EQ(
      Moe(With(
          Usual("jamba"),
          {{"num_experts", 8}, {"intermediate_size", 32}, {"expert_layer_period", 2}, {"expert_layer_offset", 1}})),
      Line("[1,2)[3,4)[5,6)", "2", kSwiGlu, "none", Softmax("none")));
  // The language model of a model with eyes, whose router has no switch.
  Json text = With(With(Qwen3(), shared), {{"model_type", "qwen3_5_moe_text"}});
  text.erase("norm_topk_prob");
  text.erase("decoder_sparse_step");
  EXPECT_EQ(Moe(Json{{"model_type", "qwen3_5_moe"}, {"text_config", text}}),
            Line("[0,6)", "2", kSwiGlu, "{width: 48, gate: sigmoid, activation: same}", Softmax("sum")));
}

TEST(HfConfig, TopKThenSoftmaxFamilies) {
  EXPECT_EQ(
      Moe(With(Usual("granitemoe"), {{"num_local_experts", 8}, {"intermediate_size", 32}})),
      Line("[0,6)", "2", kSwiGlu, "none",
           absl::StrCat("scoring: softmax, order: topk_then_score, renormalize: none, scale: 1.0, ", kPlainTail)));
  EXPECT_EQ(Moe(GptOss()),
            Line("[0,6)", "2", "{kind: swiglu_oai, alpha: 1.702, limit: 7.0}", "none",
                 "scoring: softmax, order: topk_then_score, renormalize: none, scale: 1.0, logit_bias: tensor, "
                 "selection_bias: none, groups: none, weight_applied: output, input_dtype: bf16"));
}

TEST(HfConfig, GroupedSoftmaxFamily) {
  EXPECT_EQ(
      Moe(DeepseekV2()),
      Line("[1,6)", "2", kSwiGlu, "{width: 64, gate: none, activation: same}",
           "scoring: softmax, order: score_then_topk, renormalize: none, scale: 16.0, logit_bias: none, "
           "selection_bias: none, groups: {count: 4, keep: 2, score: max}, weight_applied: output, input_dtype: f32"));
  EXPECT_EQ(Moe(With(DeepseekV2(), {{"topk_method", "greedy"}})),
            Line("[1,6)", "2", kSwiGlu, "{width: 64, gate: none, activation: same}",
                 "scoring: softmax, order: score_then_topk, renormalize: none, scale: 16.0, logit_bias: none, "
                 "selection_bias: none, groups: none, weight_applied: output, input_dtype: f32"));
}

TEST(HfConfig, BiasedSigmoidFamilies) {
  const auto router = [](absl::string_view groups) {
    return absl::StrCat(
        "scoring: sigmoid, order: score_then_topk, renormalize: {sum_plus: {guard: 1.0e-20}}, scale: 2.5, logit_bias: "
        "none, "
        "selection_bias: tensor, groups: ",
        groups, ", weight_applied: output, input_dtype: f32");
  };
  constexpr const char* kShared = "{width: 32, gate: none, activation: same}";
  for (const char* type : {"deepseek_v3", "deepseek_v32", "kimi_k2"}) {
    EXPECT_EQ(Moe(With(DeepseekV3(), {{"model_type", type}})),
              Line("[3,6)", "2", kSwiGlu, kShared, router("{count: 4, keep: 2, score: top2_sum}")));
  }
  for (const char* type : {"glm4_moe", "glm_moe_dsa"}) {
    EXPECT_EQ(Moe(With(DeepseekV3(), {{"model_type", type}, {"n_group", 1}, {"topk_group", 1}})),
              Line("[3,6)", "2", kSwiGlu, kShared, router("none")));
  }
  EXPECT_EQ(Moe(Json{{"model_type", "kimi_k25"}, {"text_config", DeepseekV3()}}),
            Line("[3,6)", "2", kSwiGlu, kShared, router("{count: 4, keep: 2, score: top2_sum}")));
  EXPECT_EQ(Moe(With(Usual("minimax_m2"), {{"num_local_experts", 8},
                                           {"intermediate_size", 32},
                                           {"scoring_func", "sigmoid"},
                                           {"use_routing_bias", true}})),
            Line("[0,6)", "2", kSwiGlu, "none",
                 "scoring: sigmoid, order: score_then_topk, renormalize: sum, scale: 1.0, logit_bias: none, "
                 "selection_bias: tensor, groups: none, weight_applied: output, input_dtype: f32"));
}

TEST(HfConfig, FamiliesWithARuleOfTheirOwn) {
  EXPECT_EQ(
      Moe(DeepseekV4()),
      Line("[0,6)", "2", "{kind: swiglu_preclamp, limit: 10.0}", "{width: 32, gate: none, activation: same}",
           "scoring: sqrt_softplus, order: score_then_topk, renormalize: {sum_plus: {guard: 1.0e-20}}, scale: 1.5, "
           "logit_bias: none, selection_bias: tensor, groups: none, weight_applied: output, input_dtype: f32",
           "[0-2]"));
  EXPECT_EQ(Moe(Llama4()),
            Line("[1,2)[3,4)[5,6)", "1", kSwiGlu, "{width: 32, gate: none, activation: same}",
                 "scoring: sigmoid, order: topk_then_score, renormalize: none, scale: 1.0, logit_bias: none, "
                 "selection_bias: none, groups: none, weight_applied: input, input_dtype: bf16"));
  EXPECT_EQ(
      Moe(With(Mixtral(), {{"model_type", "phimoe"}, {"router_jitter_noise", 0.01}})),
      Line("[0,6)", "2", kSwiGlu, "none",
           absl::StrCat("scoring: {sparsemixer: {eps: 0.01}}, order: score_then_topk, renormalize: none, scale: 1.0, ",
                        kPlainTail)));
}

TEST(HfConfig, AttentionAndExtraBlocks) {
  const auto attention = [](const Json& config) {
    const std::optional<AttentionSpec> found = Read(config)->manifest.attention;
    return found.has_value() ? absl::StrCat(found->heads.value, " ", found->kv_heads.value, " ", found->head_dim.value)
                             : "other";
  };
  EXPECT_EQ(attention(Mixtral()), "4 2 16");     // hidden over heads
  EXPECT_EQ(attention(Qwen3()), "4 2 8");        // said
  EXPECT_EQ(attention(DeepseekV3()), "4 2 16");  // both parts of a key
  EXPECT_EQ(attention(DeepseekV4()), "other");
  EXPECT_EQ(Read(DeepseekV3())->manifest.mtp_layers.value, 1u);
  EXPECT_TRUE(Read(DeepseekV3())->mtp_stated);
  EXPECT_FALSE(Read(Qwen3())->mtp_stated);
}

TEST(HfConfig, LayersThatHaveExperts) {
  const auto layers = [](const Json& config) { return Layers(*Read(config)); };
  EXPECT_EQ(layers(With(Qwen3(), {{"decoder_sparse_step", 2}, {"mlp_only_layers", {3}}})), "[1,2)[5,6)");
  EXPECT_EQ(layers(With(DeepseekV3(), {{"first_k_dense_replace", 1}, {"moe_layer_freq", 2}})), "[2,3)[4,5)");
  Json listed = Llama4();
  listed["text_config"]["moe_layers"] = {4, 0, 5};
  EXPECT_EQ(layers(listed), "[0,1)[4,6)");
  listed["text_config"]["moe_layers"] = {4, 4};
  EXPECT_EQ(Said(listed), "config.json: text_config.moe_layers: a layer stands twice");
  EXPECT_EQ(
      Said(With(DeepseekV3(), {{"mlp_layer_types", {"dense", "sparse", "sparse", "sparse", "sparse", "sparse"}}})),
      "config.json: mlp_layer_types: disagrees with the other fields: 5 sparse layers of 6, expected 3 of 6");
  EXPECT_EQ(Said(With(DeepseekV3(), {{"first_k_dense_replace", 6}})),
            "config.json: num_hidden_layers: none of the layers has experts");
}

// One family's own word is absent, and another word of the same meaning stands.
TEST(HfConfig, TheNumberOfExpertsUnderItsOtherName) {
  const std::vector<std::pair<Json, std::pair<const char*, const char*>>> renamed = {
      {Mixtral(), {"num_local_experts", "num_experts"}},
      {Qwen3(), {"num_experts", "num_local_experts"}},
      {DeepseekV2(), {"n_routed_experts", "num_experts"}},
      {DeepseekV3(), {"n_routed_experts", "num_local_experts"}},
      {DeepseekV4(), {"n_routed_experts", "num_local_experts"}},
      {GptOss(), {"num_local_experts", "num_experts"}},
  };
  for (const auto& [config, keys] : renamed) {
    Json other = config;
    other.erase(keys.first);
    other[keys.second] = config[keys.first];
    EXPECT_EQ(Moe(other), Moe(config));
    // Both: the same, or an error.
    other[keys.first] = config[keys.first];
    EXPECT_EQ(Moe(other), Moe(config));
    other[keys.second] = 4;
    EXPECT_EQ(Said(other), absl::StrCat("config.json: ", keys.second, ": found 4, this family has 8"));
    other.erase(keys.first);
    other[keys.second] = 0;
    EXPECT_EQ(Said(other),
              absl::StrCat("config.json: ", keys.second, ": found 0, expected a whole number from 1 to 1048576"));
  }
  // A word that the family does not have; none at all.
  Json llama = Llama4();
  llama["text_config"].erase("num_local_experts");
  llama["text_config"]["num_experts"] = 8;
  EXPECT_EQ(Said(llama), "config.json: text_config.num_local_experts: absent; it is needed as the number of experts");
  Json qwen = Qwen3();
  qwen.erase("num_experts");
  EXPECT_EQ(Said(qwen), "config.json: num_experts: absent; it is needed as the number of experts");
}

TEST(HfConfig, LayersThatChooseByTokenIdByTheirType) {
  const auto typed = [](const std::vector<std::string>& types) {
    Json config = With(DeepseekV4(), {{"mlp_layer_types", types}});
    config.erase("num_hash_layers");
    return config;
  };
  const std::vector<std::string> three = {"hash_moe", "hash_moe", "hash_moe", "moe", "moe", "moe"};
  EXPECT_EQ(Moe(typed(three)), Moe(DeepseekV4()));
  EXPECT_EQ(Moe(With(typed(three), {{"num_hash_layers", 3}})), Moe(DeepseekV4()));
  EXPECT_EQ(Moe(typed(std::vector<std::string>(6, "moe"))), Moe(With(DeepseekV4(), {{"num_hash_layers", 0}})));
  EXPECT_EQ(Said(With(typed(three), {{"num_hash_layers", 2}})),
            "config.json: num_hash_layers: found 2, this family has 3");
  EXPECT_EQ(Said(typed({"hash_moe", "moe"})), "config.json: mlp_layer_types: has 2 layers, expected 6");
  EXPECT_EQ(Said(typed({"hash_moe", "moe", "hash_moe", "moe", "moe", "moe"})),
            "config.json: mlp_layer_types: layer 2 is 'hash_moe' after one that is not; this family has such layers at "
            "the start");
  EXPECT_EQ(Said(typed({"dense", "moe", "moe", "moe", "moe", "moe"})),
            "config.json: mlp_layer_types: found 'dense', expected 'hash_moe' or 'moe'");
  Json neither = DeepseekV4();
  neither.erase("num_hash_layers");
  EXPECT_EQ(Said(neither), "config.json: num_hash_layers: absent; it is needed as the layers that choose by token id");
}

TEST(HfConfig, RefusesAnUnknownFamilyAndNamesTheNearest) {
  constexpr const char* kKnown =
      "known are mixtral, phimoe, minimax_m2, qwen2_moe, qwen3_moe, qwen3_next, qwen3_5_moe, olmoe, deepseek_v2, "
      "deepseek_v3, deepseek_v32, kimi_k2, kimi_k25, deepseek_v4, glm4_moe, glm_moe_dsa, gpt_oss, llama4, granitemoe, "
      "jamba";
  EXPECT_EQ(Said(Usual("mixtrall")),
            absl::StrCat("config.json: model_type: unknown family 'mixtrall'; the nearest known "
                         "one is 'mixtral'; ",
                         kKnown));
  EXPECT_EQ(Said(Usual("bert")), absl::StrCat("config.json: model_type: unknown family 'bert'; ", kKnown));
  EXPECT_EQ(Said(Json::object()), "config.json: model_type: absent; it is needed as the name of the model's family");
}

TEST(HfConfig, RefusesAFactThatIsAbsent) {
  const Json config = Mixtral();  // every field of it is needed
  for (const auto& [key, value] : config.items()) {
    Json less = config;
    less.erase(key);
    EXPECT_EQ(Said(less).find(absl::StrCat("config.json: ", key, ": absent; it is needed as ")), 0u) << Said(less);
  }
  Json qwen = Qwen3();
  qwen.erase("norm_topk_prob");
  EXPECT_EQ(Said(qwen),
            "config.json: norm_topk_prob: absent; it is needed as whether the chosen scores are divided by their sum");
  EXPECT_EQ(Said(Json{{"model_type", "llama4"}}),
            "config.json: text_config: absent; it is needed as the language model's part");
}

TEST(HfConfig, RefusesWhatTheFamilyDoesNotHave) {
  const std::vector<std::pair<Json, std::string>> refused = {
      {With(Mixtral(), {{"hidden_act", "gelu"}}), "hidden_act: found \"gelu\", known is \"silu\""},
      {With(Mixtral(), {{"mlp_bias", true}}), "mlp_bias: found true, this family has false"},
      {With(Mixtral(), {{"swiglu_limit", 7.0}}), "swiglu_limit: found 7.0, this family does not clamp"},
      {With(Mixtral(), {{"n_shared_experts", 1}}), "n_shared_experts: found 1, this family has 0"},
      {With(Mixtral(), {{"routed_scaling_factor", 2.5}}), "routed_scaling_factor: found 2.5, this family has 1"},
      {With(Mixtral(), {{"n_group", 8}}), "n_group: found 8, this family has 1"},
      {With(Mixtral(), {{"scoring_func", "sigmoid"}}), "scoring_func: found \"sigmoid\", this family has \"softmax\""},
      {With(Mixtral(), {{"norm_topk_prob", false}}),
       "norm_topk_prob: found false, this family always divides by the sum"},
      {With(Mixtral(), {{"num_experts", 9}}), "num_experts: found 9, this family has 8"},
      {With(Mixtral(), {{"num_experts_per_tok", 9}}),
       "num_experts_per_tok: found 9, expected a whole number from 1 to 8"},
      {With(Mixtral(), {{"num_local_experts", 8.0}}),
       "num_local_experts: found 8.0, expected a whole number from 1 to 1048576"},
      {With(Mixtral(), {{"torch_dtype", "float8"}}),
       "torch_dtype: found \"float8\", expected \"bfloat16\", \"float16\" or \"float32\""},
      {With(Mixtral(), {{"torch_dtype", "float16"}}),
       "torch_dtype: found \"float16\"; the router's product would be float16, expected bfloat16 or float32"},
      {With(Mixtral(), {{"num_attention_heads", 5}}), "head_dim: absent, and 5 heads do not divide hidden_size 64"},
      {With(DeepseekV2(), {{"norm_topk_prob", true}}),
       "norm_topk_prob: found true, which the family's public implementations do not agree on"},
      {With(DeepseekV2(), {{"topk_method", "best"}}),
       "topk_method: found \"best\", known are \"greedy\" and \"group_limited_greedy\""},
      {With(DeepseekV3(), {{"scoring_func", "softmax"}}),
       "scoring_func: found \"softmax\", this family has \"sigmoid\""},
      {With(DeepseekV3(), {{"topk_method", "greedy"}}), "topk_method: found \"greedy\", this family has \"noaux_tc\""},
      {With(DeepseekV3(), {{"moe_router_dtype", "bfloat16"}}),
       "moe_router_dtype: found \"bfloat16\", this family has \"float32\""},
      {With(DeepseekV3(), {{"n_group", 3}}), "n_group: 3 groups do not divide 8 experts"},
      {With(DeepseekV3(), {{"topk_group", 5}}), "topk_group: found 5, expected a whole number from 1 to 4"},
      {With(DeepseekV3(), {{"routed_scaling_factor", 0}}), "routed_scaling_factor: expected a number above 0"},
      {With(GptOss(), {{"swiglu_alpha", 2.0}}), "swiglu_alpha: found 2.0, this family has 1.702"},
      {With(GptOss(), {{"experts_per_token", 4}}), "experts_per_token: found 4, this family has 2"},
      {With(Mixtral(), {{"model_type", "phimoe"}, {"router_jitter_noise", 0.01}, {"num_experts_per_tok", 3}}),
       "num_experts_per_tok: found 3, sparsemixer selects 2 experts"},
  };
  for (const auto& [config, text] : refused) EXPECT_EQ(Said(config), absl::StrCat("config.json: ", text));
}

TEST(HfConfig, ModelNames) {
  EXPECT_EQ(ModelNameOf("Qwen3-30B-A3B"), "qwen3-30b-a3b");
  EXPECT_EQ(ModelNameOf("Qwen3.5 (35B)__\xC3\xA9/x"), "qwen3.5-35b-x");
  EXPECT_EQ(ModelNameOf("--."), "model");
  EXPECT_EQ(ModelNameOf("///"), "model");
}

}  // namespace
}  // namespace meshseal::compiler
