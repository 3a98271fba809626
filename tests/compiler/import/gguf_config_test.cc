#include "compiler/import/gguf_config.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/write_manifest.h"
#include "schema/reason.h"
#include "tests/support/gguf_writer.h"

namespace meshseal::compiler {
namespace {

using support::GgufType;
using support::GgufWriter;

// Keys of a file as changes to a map of them.
struct Key {
  std::string name;  // after the architecture
  std::function<void(GgufWriter&, const std::string&)> write;
};

Key U32(std::string name, uint32_t value) {
  return {std::move(name), [value](GgufWriter& w, const std::string& key) { w.U32(key, value); }};
}
Key F32(std::string name, float value) {
  return {std::move(name), [value](GgufWriter& w, const std::string& key) { w.F32(key, value); }};
}
Key Flag(std::string name, bool value) {
  return {std::move(name), [value](GgufWriter& w, const std::string& key) { w.Bool(key, value); }};
}
Key U32s(std::string name, std::vector<int64_t> values) {
  return {std::move(name), [values = std::move(values)](GgufWriter& w, const std::string& key) {
            w.Integers(key, GgufType::kU32, values);
          }};
}
Key F32s(std::string name, std::vector<float> values) {
  return {std::move(name),
          [values = std::move(values)](GgufWriter& w, const std::string& key) { w.F32s(key, values); }};
}
Key Gone(std::string name) { return {std::move(name), nullptr}; }

std::vector<Key> With(std::vector<Key> keys, const std::vector<Key>& changes) {
  for (const Key& change : changes) {
    bool found = false;
    for (Key& key : keys) {
      if (key.name != change.name) continue;
      key = change;
      found = true;
    }
    if (!found) keys.push_back(change);
  }
  return keys;
}

absl::StatusOr<ModelFacts> Read(const std::string& architecture, const std::vector<Key>& keys, bool named = true) {
  GgufWriter writer;
  if (!architecture.empty()) writer.Text("general.architecture", architecture);
  if (named) writer.Text("general.name", "Tiny Model 8x1B");
  for (const Key& key : keys) {
    if (key.write) key.write(writer, absl::StrCat(architecture, ".", key.name));
  }
  const std::string bytes = writer.Bytes();
  const auto read = [&](uint64_t offset, absl::Span<std::byte> out) {
    std::memcpy(out.data(), bytes.data() + offset, out.size());
    return absl::OkStatus();
  };
  const absl::StatusOr<GgufHeader> header = ParseGgufHeader("m.gguf", read, bytes.size());
  if (!header.ok()) return header.status();
  return ReadGgufConfig("m.gguf", header->metadata, "File.Name");
}

std::vector<Key> Usual() {
  return {U32("block_count", 6),
          U32("embedding_length", 64),
          U32("attention.head_count", 4),
          U32("attention.head_count_kv", 2),
          U32("expert_count", 8),
          U32("expert_used_count", 2),
          U32("expert_feed_forward_length", 32)};
}
std::vector<Key> Deepseek() {
  return With(Usual(),
              {U32("leading_dense_block_count", 1), U32("expert_shared_count", 1), U32("expert_gating_func", 2),
               Flag("expert_weights_norm", true), F32("expert_weights_scale", 2.5f), U32("expert_group_count", 4),
               U32("expert_group_used_count", 2), U32("attention.key_length", 24)});
}

std::string Said(const std::string& architecture, const std::vector<Key>& keys) {
  const absl::StatusOr<ModelFacts> facts = Read(architecture, keys);
  if (facts.ok()) return "";
  EXPECT_EQ(ReasonOf(facts.status()), Reason::kImport);
  return std::string(facts.status().message());
}

std::string Moe(const std::string& architecture, const std::vector<Key>& keys) {
  const absl::StatusOr<ModelFacts> facts = Read(architecture, keys);
  if (!facts.ok()) return std::string(facts.status().message());
  std::string text = facts->family->name;
  for (const LayerRange& range : facts->manifest.moe_layers.value)
    absl::StrAppend(&text, " [", range.first, ",", range.last, ")");
  return absl::StrCat(text, " ", MoeLine(facts->manifest.groups[0].moe));
}

std::string Line(absl::string_view start, absl::string_view activation, absl::string_view shared,
                 absl::string_view router, absl::string_view table = "[]") {
  return absl::StrCat(start, " {experts_per_token: 2, intermediate_size: 32, activation: ", activation,
                      ", gated: true, shared_expert: ", shared, ", experts: 8, router: {", router,
                      ", input_dtype: f32}, token_table: ", table, ", vocabulary: ", table == "[]" ? 0 : 1000,
                      ", residual: none}");
}

constexpr const char* kNoBias =
    ", scale: 1.0, logit_bias: none, selection_bias: none, groups: none, weight_applied: output";

TEST(GgufConfig, FamiliesWhoseRouterIsFixed) {
  const std::string softmax_sum = absl::StrCat("scoring: softmax, order: score_then_topk, renormalize: sum", kNoBias);
  EXPECT_EQ(Moe("llama", Usual()), Line("mixtral [0,6)", "{kind: swiglu}", "none", softmax_sum));
  EXPECT_EQ(Moe("llama", With(Usual(), {Gone("expert_feed_forward_length"), U32("feed_forward_length", 32)})),
            Line("mixtral [0,6)", "{kind: swiglu}", "none", softmax_sum));
  EXPECT_EQ(Moe("qwen3moe", Usual()), Line("qwen3_moe [0,6)", "{kind: swiglu}", "none", softmax_sum));
  EXPECT_EQ(Moe("qwen2moe", With(Usual(), {U32("expert_shared_feed_forward_length", 48)})),
            Line("qwen2_moe [0,6)", "{kind: swiglu}", "{width: 48, gate: sigmoid, activation: same}",
                 absl::StrCat("scoring: softmax, order: score_then_topk, renormalize: none", kNoBias)));
  EXPECT_EQ(Moe("gpt-oss", Usual()),
            Line("gpt_oss [0,6)", "{kind: swiglu_oai, alpha: 1.702, limit: 7.0}", "none",
                 "scoring: softmax, order: topk_then_score, renormalize: none, scale: 1.0, logit_bias: tensor, "
                 "selection_bias: none, groups: none, weight_applied: output"));
  EXPECT_EQ(Moe("llama4", With(Usual(), {U32("interleave_moe_layer_step", 2)})),
            Line("llama4 [1,2) [3,4) [5,6)", "{kind: swiglu}", "{width: 32, gate: none, activation: same}",
                 "scoring: sigmoid, order: topk_then_score, renormalize: none, scale: 1.0, logit_bias: none, "
                 "selection_bias: none, groups: none, weight_applied: input"));
}

TEST(GgufConfig, FamiliesWhoseRouterTheKeysSay) {
  constexpr const char* kShared = "{width: 32, gate: none, activation: same}";
  EXPECT_EQ(Moe("deepseek2", Deepseek()),
            Line("deepseek_v3 [1,6)", "{kind: swiglu}", kShared,
                 "scoring: sigmoid, order: score_then_topk, renormalize: {sum_plus: {guard: 1.0e-20}}, scale: 2.5, "
                 "logit_bias: none, selection_bias: tensor, groups: {count: 4, keep: 2, score: top2_sum}, "
                 "weight_applied: output"));
  EXPECT_EQ(Moe("deepseek2", With(Deepseek(), {U32("expert_gating_func", 1), Flag("expert_weights_norm", false),
                                               U32("expert_group_count", 1), U32("expert_group_used_count", 1),
                                               F32("expert_weights_scale", 0)})),
            Line("deepseek_v2 [1,6)", "{kind: swiglu}", kShared,
                 absl::StrCat("scoring: softmax, order: score_then_topk, renormalize: none", kNoBias)));
  // The family fixes the scores, so the key may be missing.
  EXPECT_EQ(Moe("glm4moe", With(Deepseek(), {Gone("expert_gating_func"), Gone("expert_group_count"),
                                             Gone("expert_group_used_count")})),
            Line("glm4_moe [1,6)", "{kind: swiglu}", kShared,
                 "scoring: sigmoid, order: score_then_topk, renormalize: {sum_plus: {guard: 1.0e-20}}, scale: 2.5, "
                 "logit_bias: none, selection_bias: tensor, groups: none, weight_applied: output"));
  const std::vector<Key> v4 =
      With(Deepseek(), {U32("expert_gating_func", 4), U32("hash_layer_count", 3), U32("vocab_size", 1000),
                        F32s("swiglu_clamp_exp", {10, 10}), F32s("swiglu_clamp_shexp", {7})});
  EXPECT_EQ(
      Moe("deepseek4", v4),
      Line("deepseek_v4 [0,6)", "{kind: swiglu_preclamp, limit: 10.0}",
           "{width: 32, gate: none, activation: {kind: swiglu_preclamp, limit: 7.0}}",
           "scoring: sqrt_softplus, order: score_then_topk, renormalize: {sum_plus: {guard: 1.0e-20}}, scale: 2.5, "
           "logit_bias: none, selection_bias: tensor, groups: none, weight_applied: output",
           "[0-2]"));
}

TEST(GgufConfig, ExtraBlocksAttentionAndName) {
  const ModelFacts facts =
      *Read("deepseek2", With(Deepseek(), {U32("nextn_predict_layers", 1), U32("attention.key_length_mla", 16)}));
  EXPECT_EQ(facts.manifest.layers.value, 5u);
  EXPECT_EQ(facts.manifest.mtp_layers.value, 1u);
  EXPECT_EQ(facts.manifest.attention->kv_heads.value, 4u);
  EXPECT_EQ(facts.manifest.attention->head_dim.value, 16u);
  EXPECT_EQ(facts.manifest.name.value, "tiny-model-8x1b");
  EXPECT_EQ(Read("llama", Usual(), false)->manifest.name.value, "file.name");
  EXPECT_EQ(Read("llama", Usual())->manifest.attention->head_dim.value, 16u);
  // Heads that differ by layer are no heads of the model; zeros are layers without attention.
  EXPECT_FALSE(
      Read("llama", With(Usual(), {U32s("attention.head_count_kv", {2, 4, 0})}))->manifest.attention.has_value());
  EXPECT_EQ(
      Read("llama", With(Usual(), {U32s("attention.head_count_kv", {0, 2, 2})}))->manifest.attention->kv_heads.value,
      2u);
}

TEST(GgufConfig, Refusals) {
  constexpr const char* kKnown =
      "known are llama, phimoe, minimax-m2, qwen2moe, qwen3moe, qwen3next, qwen35moe, olmoe, deepseek2, deepseek4, "
      "glm4moe, "
      "glm-dsa, gpt-oss, llama4, granitemoe, jamba";
  const std::vector<std::pair<std::string, std::string>> refused = {
      {Said("", {}), "'general.architecture': absent; it is needed as the name of the model's family"},
      {Said("qwen3mo", {}),
       absl::StrCat("'general.architecture': unknown architecture 'qwen3mo'; the nearest known one is 'qwen3moe'; ",
                    kKnown)},
      {Said("clip", {}), absl::StrCat("'general.architecture': unknown architecture 'clip'; ", kKnown)},
      {Said("llama", With(Usual(), {Gone("expert_count")})),
       "'llama.expert_count': absent; it is needed as the number of experts"},
      {Said("llama", With(Usual(), {U32("expert_count", 0)})),
       "'llama.expert_count': found 0, expected a whole number from 1 to 1048576"},
      {Said("llama", With(Usual(), {U32("expert_used_count", 9)})),
       "'llama.expert_used_count': found 9, expected a whole number from 1 to 8"},
      {Said("qwen3moe", With(Usual(), {Gone("expert_feed_forward_length")})),
       "'qwen3moe.expert_feed_forward_length': absent; it is needed as the width of an expert"},
      {Said("qwen3moe", With(Usual(), {Flag("expert_weights_norm", false)})),
       "'qwen3moe.expert_weights_norm': found false, the family qwen3_moe has true"},
      {Said("qwen3moe", With(Usual(), {F32("expert_weights_scale", 2.5f)})),
       "'qwen3moe.expert_weights_scale': found 2.5, expected 1 in this family"},
      {Said("qwen3moe", With(Usual(), {U32("expert_gating_func", 2)})),
       "'qwen3moe.expert_gating_func': found 2 (sigmoid), which no family of 'qwen3moe' has"},
      {Said("deepseek2", With(Deepseek(), {Gone("expert_gating_func")})),
       "'deepseek2.expert_gating_func': absent; it is needed as the router's scores"},
      {Said("deepseek2", With(Deepseek(), {U32("expert_gating_func", 9)})),
       "'deepseek2.expert_gating_func': found 9, which no family of 'deepseek2' has"},
      {Said("deepseek2", With(Deepseek(), {Gone("expert_weights_norm")})),
       "'deepseek2.expert_weights_norm': absent; it is needed as whether the chosen scores are divided by their sum"},
      {Said("deepseek2", With(Deepseek(), {Gone("expert_weights_scale")})),
       "'deepseek2.expert_weights_scale': absent; it is needed as the routed scale"},
      {Said("deepseek2", With(Deepseek(), {F32("expert_weights_scale", -1)})),
       "'deepseek2.expert_weights_scale': found -1, expected a number above 0"},
      {Said("deepseek2", With(Deepseek(), {Gone("expert_group_count")})),
       "'deepseek2.expert_group_count': absent; it is needed as the number of expert groups"},
      {Said("deepseek2", With(Deepseek(), {U32("expert_group_count", 3)})),
       "'deepseek2.expert_group_count': 3 groups do not divide 8 experts"},
      {Said("deepseek2", With(Deepseek(), {Gone("leading_dense_block_count")})),
       "'deepseek2.leading_dense_block_count': absent; it is needed as the number of leading dense layers"},
      {Said("deepseek2", With(Deepseek(), {Gone("attention.key_length")})),
       "'deepseek2.attention.key_length': absent; it is needed as the size of a head"},
      {Said("deepseek2", With(Deepseek(), {U32("nextn_predict_layers", 6)})),
       "'deepseek2.nextn_predict_layers': found 6, expected a whole number from 0 to 5"},
      {Said("deepseek4",
            With(Deepseek(), {U32("expert_gating_func", 4), U32("hash_layer_count", 3), U32("vocab_size", 1000)})),
       "'deepseek4.swiglu_clamp_exp': absent; it is needed as the clamp of gate and up"},
      {Said("deepseek4", With(Deepseek(), {U32("expert_gating_func", 4), U32("hash_layer_count", 3),
                                           U32("vocab_size", 1000), F32s("swiglu_clamp_exp", {10, 9})})),
       "'deepseek4.swiglu_clamp_exp': found 9, expected one number above 0 for all layers"},
      {Said("phimoe", Usual()),
       "'phimoe.expert_count': GGUF files do not say eps, which sparsemixer needs; import the original checkpoint"},
  };
  for (const auto& [said, expected] : refused) EXPECT_EQ(said, "m.gguf: key " + expected);
}

TEST(GgufConfig, AValueOfAnotherTypeIsTheReadersRefusal) {
  const absl::StatusOr<ModelFacts> facts = Read("llama", With(Usual(), {F32("expert_count", 8)}));
  EXPECT_EQ(ReasonOf(facts.status()), Reason::kWeightsHeader);
}

}  // namespace
}  // namespace meshseal::compiler
