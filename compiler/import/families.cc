#include "compiler/import/families.h"

#include <vector>

namespace meshseal::compiler {
namespace {

using Axis = ShapeAxis;
using Role = TensorRole;

constexpr TensorRow Row(Role role, const char* name, Axis first, Axis second, StoredAs stored = StoredAs::kWeight) {
  return {role, name, {first, second, Axis::kInvalid}, stored, GateUpLayout::kInvalid};
}
constexpr TensorRow Vector(Role role, const char* name, Axis axis, StoredAs stored = StoredAs::kModel) {
  return {role, name, {axis, Axis::kInvalid, Axis::kInvalid}, stored, GateUpLayout::kInvalid};
}
constexpr TensorRow Stack(Role role, const char* name, Axis second, Axis third,
                          GateUpLayout layout = GateUpLayout::kInvalid) {
  return {role, name, {Axis::kExperts, second, third}, StoredAs::kWeight, layout};
}
constexpr TensorRow Router(const char* name, StoredAs stored = StoredAs::kModel) {
  return Row(Role::kRouter, name, Axis::kExperts, Axis::kHidden, stored);
}
constexpr TensorRow Gate(const char* name) { return Row(Role::kGate, name, Axis::kIntermediate, Axis::kHidden); }
constexpr TensorRow Up(const char* name) { return Row(Role::kUp, name, Axis::kIntermediate, Axis::kHidden); }
constexpr TensorRow Down(const char* name) { return Row(Role::kDown, name, Axis::kHidden, Axis::kIntermediate); }
constexpr TensorRow SharedGate(const char* name) { return Row(Role::kSharedGate, name, Axis::kShared, Axis::kHidden); }
constexpr TensorRow SharedUp(const char* name) { return Row(Role::kSharedUp, name, Axis::kShared, Axis::kHidden); }
constexpr TensorRow SharedDown(const char* name) { return Row(Role::kSharedDown, name, Axis::kHidden, Axis::kShared); }

constexpr TensorRow kQwenRoles[] = {
    Router("gate.weight"),
    Gate("experts.{expert}.gate_proj.weight"),
    Up("experts.{expert}.up_proj.weight"),
    Down("experts.{expert}.down_proj.weight"),
    SharedGate("shared_expert.gate_proj.weight"),
    SharedUp("shared_expert.up_proj.weight"),
    SharedDown("shared_expert.down_proj.weight"),
    Row(Role::kSharedExpertGate, "shared_expert_gate.weight", Axis::kOne, Axis::kHidden, StoredAs::kModel),
};
constexpr TensorRow kQwenFusedRoles[] = {
    Router("gate.weight"),
    Stack(Role::kGateUp, "experts.gate_up_proj", Axis::kTwoIntermediate, Axis::kHidden, GateUpLayout::kHalves),
    Stack(Role::kDown, "experts.down_proj", Axis::kHidden, Axis::kIntermediate),
    SharedGate("shared_expert.gate_proj.weight"),
    SharedUp("shared_expert.up_proj.weight"),
    SharedDown("shared_expert.down_proj.weight"),
    Row(Role::kSharedExpertGate, "shared_expert_gate.weight", Axis::kOne, Axis::kHidden, StoredAs::kModel),
};
constexpr TensorRow kDeepseekRoles[] = {
    Router("gate.weight"),
    Vector(Role::kSelectionBias, "gate.e_score_correction_bias", Axis::kExperts, StoredAs::kF32),
    Gate("experts.{expert}.gate_proj.weight"),
    Up("experts.{expert}.up_proj.weight"),
    Down("experts.{expert}.down_proj.weight"),
    SharedGate("shared_experts.gate_proj.weight"),
    SharedUp("shared_experts.up_proj.weight"),
    SharedDown("shared_experts.down_proj.weight"),
};
constexpr TensorRow kDeepseekV4Roles[] = {
    Router("gate.weight"),
    Vector(Role::kSelectionBias, "gate.bias", Axis::kExperts, StoredAs::kF32),
    Row(Role::kTokenTable, "gate.tid2eid", Axis::kTokenIds, Axis::kTopK, StoredAs::kI64),
    Gate("experts.{expert}.w1.weight"),
    Up("experts.{expert}.w3.weight"),
    Down("experts.{expert}.w2.weight"),
    SharedGate("shared_experts.w1.weight"),
    SharedUp("shared_experts.w3.weight"),
    SharedDown("shared_experts.w2.weight"),
};
constexpr TensorRow kMixtralRoles[] = {
    Router("gate.weight"),
    Gate("experts.{expert}.w1.weight"),
    Up("experts.{expert}.w3.weight"),
    Down("experts.{expert}.w2.weight"),
};
constexpr TensorRow kMinimaxRoles[] = {
    Router("gate.weight", StoredAs::kF32),
    Vector(Role::kSelectionBias, "e_score_correction_bias", Axis::kExperts, StoredAs::kF32),
    Gate("experts.{expert}.w1.weight"),
    Up("experts.{expert}.w3.weight"),
    Down("experts.{expert}.w2.weight"),
};
constexpr TensorRow kGraniteRoles[] = {
    Router("router.layer.weight"),
    Stack(Role::kGateUp, "input_linear.weight", Axis::kTwoIntermediate, Axis::kHidden, GateUpLayout::kHalves),
    Stack(Role::kDown, "output_linear.weight", Axis::kHidden, Axis::kIntermediate),
};
constexpr TensorRow kJambaRoles[] = {
    Router("router.weight"),
    Gate("experts.{expert}.gate_proj.weight"),
    Up("experts.{expert}.up_proj.weight"),
    Down("experts.{expert}.down_proj.weight"),
};
// Stored transposed: columns of gate_up are the outputs.
constexpr TensorRow kLlama4Roles[] = {
    Router("router.weight"),
    Stack(Role::kGateUp, "experts.gate_up_proj", Axis::kHidden, Axis::kTwoIntermediate, GateUpLayout::kHalves),
    Stack(Role::kDown, "experts.down_proj", Axis::kIntermediate, Axis::kHidden),
    SharedGate("shared_expert.gate_proj.weight"),
    SharedUp("shared_expert.up_proj.weight"),
    SharedDown("shared_expert.down_proj.weight"),
};
constexpr TensorRow kGptOssRoles[] = {
    Router("router.weight"),
    Vector(Role::kRouterBias, "router.bias", Axis::kExperts),
    Stack(Role::kGateUp, "experts.gate_up_proj_blocks", Axis::kTwoIntermediate, Axis::kHidden,
          GateUpLayout::kInterleaved),
    {Role::kGateUpBias,
     "experts.gate_up_proj_bias",
     {Axis::kExperts, Axis::kTwoIntermediate, Axis::kInvalid},
     StoredAs::kModel,
     GateUpLayout::kInterleaved},
    Stack(Role::kDown, "experts.down_proj_blocks", Axis::kHidden, Axis::kIntermediate),
    Row(Role::kDownBias, "experts.down_proj_bias", Axis::kExperts, Axis::kHidden, StoredAs::kModel),
};
// Dequantised copies are stored transposed.
constexpr TensorRow kGptOssPlainRoles[] = {
    Router("router.weight"),
    Vector(Role::kRouterBias, "router.bias", Axis::kExperts),
    Stack(Role::kGateUp, "experts.gate_up_proj", Axis::kHidden, Axis::kTwoIntermediate, GateUpLayout::kInterleaved),
    {Role::kGateUpBias,
     "experts.gate_up_proj_bias",
     {Axis::kExperts, Axis::kTwoIntermediate, Axis::kInvalid},
     StoredAs::kModel,
     GateUpLayout::kInterleaved},
    Stack(Role::kDown, "experts.down_proj", Axis::kIntermediate, Axis::kHidden),
    Row(Role::kDownBias, "experts.down_proj_bias", Axis::kExperts, Axis::kHidden, StoredAs::kModel),
};

// GGUF: experts in one stack, the same names for every family.
#define MESHSEAL_GGUF_ROUTER                                                                     \
  Router("ffn_gate_inp.weight"), Vector(Role::kRouterBias, "ffn_gate_inp.bias", Axis::kExperts), \
      Vector(Role::kSelectionBias, "exp_probs_b.bias", Axis::kExperts),                          \
      Row(Role::kTokenTable, "ffn_gate_tid2eid.weight", Axis::kTokenIds, Axis::kTopK, StoredAs::kI64)
#define MESHSEAL_GGUF_SHARED                                                                                 \
  SharedGate("ffn_gate_shexp.weight"), SharedUp("ffn_up_shexp.weight"), SharedDown("ffn_down_shexp.weight"), \
      Vector(Role::kSharedExpertGate, "ffn_gate_inp_shexp.weight", Axis::kHidden)
constexpr TensorRow kGgufRoles[] = {
    MESHSEAL_GGUF_ROUTER,
    Stack(Role::kGate, "ffn_gate_exps.weight", Axis::kIntermediate, Axis::kHidden),
    Stack(Role::kUp, "ffn_up_exps.weight", Axis::kIntermediate, Axis::kHidden),
    Stack(Role::kDown, "ffn_down_exps.weight", Axis::kHidden, Axis::kIntermediate),
    Row(Role::kGateBias, "ffn_gate_exps.bias", Axis::kExperts, Axis::kIntermediate, StoredAs::kModel),
    Row(Role::kUpBias, "ffn_up_exps.bias", Axis::kExperts, Axis::kIntermediate, StoredAs::kModel),
    Row(Role::kDownBias, "ffn_down_exps.bias", Axis::kExperts, Axis::kHidden, StoredAs::kModel),
    MESHSEAL_GGUF_SHARED,
};
constexpr TensorRow kGgufFusedRoles[] = {
    MESHSEAL_GGUF_ROUTER,
    Stack(Role::kGateUp, "ffn_gate_up_exps.weight", Axis::kTwoIntermediate, Axis::kHidden, GateUpLayout::kHalves),
    Stack(Role::kDown, "ffn_down_exps.weight", Axis::kHidden, Axis::kIntermediate),
    MESHSEAL_GGUF_SHARED,
};
// Files of 2023: a tensor per expert.
constexpr TensorRow kGgufPerExpertRoles[] = {
    MESHSEAL_GGUF_ROUTER,         Gate("ffn_gate.{expert}.weight"),
    Up("ffn_up.{expert}.weight"), Down("ffn_down.{expert}.weight"),
    MESHSEAL_GGUF_SHARED,
};
#undef MESHSEAL_GGUF_SHARED
#undef MESHSEAL_GGUF_ROUTER

constexpr Storage kPlain[] = {Storage::kPlain};
constexpr Storage kPackedMx[] = {Storage::kMxfp4};
constexpr Storage kPerExpert[] = {Storage::kPlain, Storage::kFp8Block, Storage::kFp8Tensor, Storage::kNvfp4,
                                  Storage::kMxfp4};

constexpr TensorLayout kQwen[] = {{"a tensor per expert", kPerExpert, kQwenRoles}};
constexpr TensorLayout kQwen35[] = {{"experts in stacks", kPlain, kQwenFusedRoles},
                                    {"a tensor per expert", kPerExpert, kQwenRoles}};
constexpr TensorLayout kDeepseek[] = {{"a tensor per expert", kPerExpert, kDeepseekRoles}};
constexpr TensorLayout kDeepseekV4[] = {{"a tensor per expert", kPerExpert, kDeepseekV4Roles}};
constexpr TensorLayout kMixtral[] = {{"a tensor per expert", kPerExpert, kMixtralRoles}};
constexpr TensorLayout kMinimax[] = {{"a tensor per expert", kPerExpert, kMinimaxRoles}};
constexpr TensorLayout kGranite[] = {{"experts in stacks", kPlain, kGraniteRoles}};
constexpr TensorLayout kJamba[] = {{"a tensor per expert", kPerExpert, kJambaRoles}};
constexpr TensorLayout kLlama4[] = {{"experts in stacks", kPlain, kLlama4Roles}};
constexpr TensorLayout kGptOss[] = {{"packed stacks", kPackedMx, kGptOssRoles},
                                    {"transposed stacks", kPlain, kGptOssPlainRoles}};
constexpr TensorLayout kGguf[] = {{"experts in stacks", kPlain, kGgufRoles},
                                  {"gate and up in one stack", kPlain, kGgufFusedRoles},
                                  {"a tensor per expert", kPlain, kGgufPerExpertRoles}};

constexpr const char* kUsualIgnored[] = {"model.embed_tokens.*", "model.layers.{layer}.self_attn.*",
                                         "model.layers.{layer}.*_layernorm.*", "model.norm.*", "lm_head.*"};
constexpr const char* kWithDense[] = {"model.embed_tokens.*",
                                      "model.layers.{layer}.self_attn.*",
                                      "model.layers.{layer}.*_layernorm.*",
                                      "model.layers.{layer}.mlp.gate_proj.*",
                                      "model.layers.{layer}.mlp.up_proj.*",
                                      "model.layers.{layer}.mlp.down_proj.*",
                                      "model.norm.*",
                                      "lm_head.*"};
constexpr const char* kQwenNextIgnored[] = {"model.embed_tokens.*",
                                            "model.layers.{layer}.self_attn.*",
                                            "model.layers.{layer}.linear_attn.*",
                                            "model.layers.{layer}.*_layernorm.*",
                                            "model.layers.{layer}.mlp.gate_proj.*",
                                            "model.layers.{layer}.mlp.up_proj.*",
                                            "model.layers.{layer}.mlp.down_proj.*",
                                            "model.norm.*",
                                            "lm_head.*"};
constexpr const char* kQwen35Ignored[] = {"model.visual.*",
                                          "model.language_model.embed_tokens.*",
                                          "model.language_model.layers.{layer}.self_attn.*",
                                          "model.language_model.layers.{layer}.linear_attn.*",
                                          "model.language_model.layers.{layer}.*_layernorm.*",
                                          "model.language_model.norm.*",
                                          "lm_head.*"};
constexpr const char* kKimi25Ignored[] = {"vision_tower.*",
                                          "mm_projector.*",
                                          "language_model.model.embed_tokens.*",
                                          "language_model.model.layers.{layer}.self_attn.*",
                                          "language_model.model.layers.{layer}.*_layernorm.*",
                                          "language_model.model.layers.{layer}.mlp.gate_proj.*",
                                          "language_model.model.layers.{layer}.mlp.up_proj.*",
                                          "language_model.model.layers.{layer}.mlp.down_proj.*",
                                          "language_model.model.norm.*",
                                          "language_model.lm_head.*"};
constexpr const char* kDeepseekV4Ignored[] = {"embed.*",
                                              "layers.{layer}.attn.*",
                                              "layers.{layer}.attn_norm.*",
                                              "layers.{layer}.ffn_norm.*",
                                              "layers.{layer}.hc_*",
                                              "norm.*",
                                              "head.*",
                                              "hc_head_*"};
constexpr const char* kLlama4Ignored[] = {"vision_model.*",
                                          "multi_modal_projector.*",
                                          "language_model.model.embed_tokens.*",
                                          "language_model.model.layers.{layer}.self_attn.*",
                                          "language_model.model.layers.{layer}.*_layernorm.*",
                                          "language_model.model.layers.{layer}.feed_forward.gate_proj.*",
                                          "language_model.model.layers.{layer}.feed_forward.up_proj.*",
                                          "language_model.model.layers.{layer}.feed_forward.down_proj.*",
                                          "language_model.model.norm.*",
                                          "language_model.lm_head.*"};
constexpr const char* kJambaIgnored[] = {"model.embed_tokens.*",
                                         "model.layers.{layer}.self_attn.*",
                                         "model.layers.{layer}.mamba.*",
                                         "model.layers.{layer}.*_layernorm.*",
                                         "model.layers.{layer}.feed_forward.gate_proj.*",
                                         "model.layers.{layer}.feed_forward.up_proj.*",
                                         "model.layers.{layer}.feed_forward.down_proj.*",
                                         "model.final_layernorm.*",
                                         "lm_head.*"};
constexpr const char* kGgufIgnoredNames[] = {"token_embd.*",
                                             "token_embd_norm.*",
                                             "output.*",
                                             "output_norm.*",
                                             "output_hc_*",
                                             "rope_freqs.*",
                                             "rope_factors_*",
                                             "blk.{layer}.attn_*",
                                             "blk.{layer}.ssm_*",
                                             "blk.{layer}.indexer.*",
                                             "blk.{layer}.hc_*",
                                             "blk.{layer}.ffn_norm.*",
                                             "blk.{layer}.post_*",
                                             "blk.{layer}.ffn_gate.weight",
                                             "blk.{layer}.ffn_up.weight",
                                             "blk.{layer}.ffn_down.weight"};

constexpr const char* kMixtralTypes[] = {"mixtral"};
constexpr const char* kPhiTypes[] = {"phimoe"};
constexpr const char* kMinimaxTypes[] = {"minimax_m2"};
constexpr const char* kQwen2Types[] = {"qwen2_moe"};
constexpr const char* kQwen3Types[] = {"qwen3_moe"};
constexpr const char* kQwenNextTypes[] = {"qwen3_next"};
constexpr const char* kQwen35Types[] = {"qwen3_5_moe"};
constexpr const char* kOlmoeTypes[] = {"olmoe"};
constexpr const char* kDeepseekV2Types[] = {"deepseek_v2"};
constexpr const char* kDeepseekV3Types[] = {"deepseek_v3", "deepseek_v32", "kimi_k2"};
constexpr const char* kKimi25Types[] = {"kimi_k25"};
constexpr const char* kDeepseekV4Types[] = {"deepseek_v4"};
constexpr const char* kGlm4Types[] = {"glm4_moe"};
constexpr const char* kGlmDsaTypes[] = {"glm_moe_dsa"};
constexpr const char* kGptOssTypes[] = {"gpt_oss"};
constexpr const char* kLlama4Types[] = {"llama4"};
constexpr const char* kGraniteTypes[] = {"granitemoe"};
constexpr const char* kJambaTypes[] = {"jamba"};

// Softmax over all experts, then top-k; whether the chosen ones are divided by their sum differs.
constexpr RouterRule SoftmaxRule(NormRule norm) {
  RouterRule rule;
  rule.scoring = Scoring::kSoftmax;
  rule.norm = norm;
  return rule;
}
// Top-k on the logits, then softmax over the chosen.
constexpr RouterRule TopKSoftmaxRule(bool logit_bias) {
  RouterRule rule;
  rule.scoring = Scoring::kSoftmax;
  rule.order = RouteOrder::kTopKThenScore;
  rule.logit_bias = logit_bias;
  return rule;
}
// Softmax in float32, the best groups by their largest score, no division.
constexpr RouterRule GroupedSoftmaxRule() {
  RouterRule rule = SoftmaxRule(NormRule::kKeyFalse);
  rule.scoring_word = "softmax";
  rule.scaled = true;
  rule.groups = GroupScore::kMax;
  rule.input = RouterInput::kF32;
  return rule;
}
// Sigmoid in float32, a bias for the selection alone, groups by their two largest scores.
constexpr RouterRule BiasedSigmoidRule() {
  RouterRule rule;
  rule.scoring = Scoring::kSigmoid;
  rule.scoring_word = "sigmoid";
  rule.norm = NormRule::kKey;
  rule.renormalize = Renormalize::kSumPlus;
  rule.guard = 1e-20;
  rule.scaled = true;
  rule.groups = GroupScore::kTop2Sum;
  rule.selection_bias = BiasRule::kAlways;
  rule.input = RouterInput::kF32;
  return rule;
}
constexpr RouterRule MinimaxRule() {
  RouterRule rule;
  rule.scoring = Scoring::kSigmoid;
  rule.scoring_word = "sigmoid";
  rule.scoring_stated = true;
  rule.norm = NormRule::kAlways;
  rule.selection_bias = BiasRule::kUseRoutingBias;
  rule.input = RouterInput::kRouterWeight;
  return rule;
}
constexpr RouterRule DeepseekV4Rule() {
  RouterRule rule;
  rule.scoring = Scoring::kSqrtSoftplus;
  rule.scoring_word = "sqrtsoftplus";
  rule.scoring_stated = true;
  rule.norm = NormRule::kKey;
  rule.renormalize = Renormalize::kSumPlus;
  rule.guard = 1e-20;
  rule.scaled = true;
  rule.selection_bias = BiasRule::kAlways;
  rule.token_table = true;
  rule.input = RouterInput::kF32;
  return rule;
}
constexpr RouterRule Llama4Rule() {
  RouterRule rule;
  rule.scoring = Scoring::kSigmoid;
  rule.order = RouteOrder::kTopKThenScore;
  rule.weight = WeightPoint::kInput;
  return rule;
}
constexpr RouterRule SparsemixerRule() {
  RouterRule rule;
  rule.scoring = Scoring::kSparsemixer;
  return rule;
}

const std::vector<Family>& Rows() {
  static const std::vector<Family> rows = {
      {.name = "mixtral",
       .model_types = kMixtralTypes,
       .gguf = {.architecture = "llama", .norm = NormRule::kAlways, .one_width = true},
       .experts_key = "num_local_experts",
       .experts_alias = "num_experts",
       .width_key = "intermediate_size",
       .router = SoftmaxRule(NormRule::kAlways),
       .block = "block_sparse_moe.",
       .layouts = kMixtral,
       .ignored = kUsualIgnored},
      {.name = "phimoe",
       .model_types = kPhiTypes,
       .gguf = {.architecture = "phimoe", .one_width = true},
       .experts_key = "num_local_experts",
       .width_key = "intermediate_size",
       .router = SparsemixerRule(),
       .block = "block_sparse_moe.",
       .layouts = kMixtral,
       .ignored = kUsualIgnored},
      {.name = "minimax_m2",
       .model_types = kMinimaxTypes,
       .gguf = {.architecture = "minimax-m2", .norm = NormRule::kAlways, .one_width = true},
       .experts_key = "num_local_experts",
       .experts_alias = "num_experts",
       .width_key = "intermediate_size",
       .mtp_from_files = true,
       .router = MinimaxRule(),
       .block = "block_sparse_moe.",
       .layouts = kMinimax,
       .ignored = kUsualIgnored},
      {.name = "qwen2_moe",
       .model_types = kQwen2Types,
       .gguf = {.architecture = "qwen2moe"},
       .layers = LayerRule::kSparseStep,
       .router = SoftmaxRule(NormRule::kKey),
       .shared = SharedRule::kWidth,
       .layouts = kQwen,
       .ignored = kWithDense},
      {.name = "qwen3_moe",
       .model_types = kQwen3Types,
       .gguf = {.architecture = "qwen3moe", .norm = NormRule::kAlways},
       .experts_alias = "num_local_experts",
       .layers = LayerRule::kSparseStep,
       .router = SoftmaxRule(NormRule::kKey),
       .layouts = kQwen,
       .fp8_scale_dtype = "bf16",
       .ignored = kWithDense},
      {.name = "qwen3_next",
       .model_types = kQwenNextTypes,
       .gguf = {.architecture = "qwen3next", .norm = NormRule::kAlways},
       .mtp_from_files = true,
       .attention = AttentionRule::kOther,
       .layers = LayerRule::kSparseStep,
       .router = SoftmaxRule(NormRule::kKey),
       .shared = SharedRule::kWidth,
       .layouts = kQwen,
       .fp8_scale_dtype = "bf16",
       .ignored = kQwenNextIgnored,
       .mtp_block = "mtp.layers.{layer}.",
       .mtp_ignored = "mtp.*"},
      {.name = "qwen3_5_moe",
       .model_types = kQwen35Types,
       .text_config = "text_config",
       .gguf = {.architecture = "qwen35moe", .norm = NormRule::kAlways},
       .mtp_key = "mtp_num_hidden_layers",
       .attention = AttentionRule::kOther,
       .router = SoftmaxRule(NormRule::kAlways),
       .shared = SharedRule::kWidth,
       .layer = "model.language_model.layers.{layer}.",
       .layouts = kQwen35,
       .ignored = kQwen35Ignored,
       .mtp_block = "mtp.layers.{layer}.",
       .mtp_ignored = "mtp.*"},
      {.name = "olmoe",
       .model_types = kOlmoeTypes,
       .gguf = {.architecture = "olmoe", .one_width = true},
       .experts_alias = "num_local_experts",
       .width_key = "intermediate_size",
       .router = SoftmaxRule(NormRule::kKey),
       .layouts = kQwen,
       .ignored = kUsualIgnored},
      {.name = "deepseek_v2",
       .model_types = kDeepseekV2Types,
       .gguf = {.architecture = "deepseek2", .gating_stated = true, .groups_stated = true},
       .experts_key = "n_routed_experts",
       .experts_alias = "num_experts",
       .attention = AttentionRule::kLatent,
       .layers = LayerRule::kFirstDense,
       .router = GroupedSoftmaxRule(),
       .shared = SharedRule::kCount,
       .layouts = kDeepseek,
       .ignored = kWithDense},
      {.name = "deepseek_v3",
       .model_types = kDeepseekV3Types,
       .gguf = {.architecture = "deepseek2", .gating_stated = true, .norm = NormRule::kKey, .groups_stated = true},
       .experts_key = "n_routed_experts",
       .experts_alias = "num_local_experts",
       .mtp_key = "num_nextn_predict_layers",
       .attention = AttentionRule::kLatent,
       .layers = LayerRule::kFirstDense,
       .router = BiasedSigmoidRule(),
       .shared = SharedRule::kCount,
       .layouts = kDeepseek,
       .ignored = kWithDense},
      {.name = "kimi_k25",
       .model_types = kKimi25Types,
       .text_config = "text_config",
       .experts_key = "n_routed_experts",
       .experts_alias = "num_local_experts",
       .mtp_key = "num_nextn_predict_layers",
       .attention = AttentionRule::kLatent,
       .layers = LayerRule::kFirstDense,
       .router = BiasedSigmoidRule(),
       .shared = SharedRule::kCount,
       .layer = "language_model.model.layers.{layer}.",
       .layouts = kDeepseek,
       .ignored = kKimi25Ignored},
      {.name = "deepseek_v4",
       .model_types = kDeepseekV4Types,
       .gguf = {.architecture = "deepseek4", .gating_stated = true, .norm = NormRule::kKey},
       .experts_key = "n_routed_experts",
       .experts_alias = "num_local_experts",
       .mtp_key = "num_nextn_predict_layers",
       .attention = AttentionRule::kOther,
       .router = DeepseekV4Rule(),
       .shared = SharedRule::kCount,
       .activation = ActivationKind::kSwiGluPreclamp,
       .layer = "layers.{layer}.",
       .block = "ffn.",
       .layouts = kDeepseekV4,
       .fp8_scale = ".scale",
       .fp8_scale_dtype = "f8_e8m0",
       .ignored = kDeepseekV4Ignored,
       .mtp_block = "mtp.{layer}.",
       .mtp_ignored = "mtp.*"},
      {.name = "glm4_moe",
       .model_types = kGlm4Types,
       .gguf = {.architecture = "glm4moe", .norm = NormRule::kKey},
       .experts_key = "n_routed_experts",
       .experts_alias = "num_local_experts",
       .mtp_key = "num_nextn_predict_layers",
       .layers = LayerRule::kFirstDense,
       .router = BiasedSigmoidRule(),
       .shared = SharedRule::kCount,
       .layouts = kDeepseek,
       .ignored = kWithDense},
      {.name = "glm_moe_dsa",
       .model_types = kGlmDsaTypes,
       .gguf = {.architecture = "glm-dsa", .norm = NormRule::kKey},
       .experts_key = "n_routed_experts",
       .experts_alias = "num_local_experts",
       .mtp_key = "num_nextn_predict_layers",
       .attention = AttentionRule::kLatent,
       .layers = LayerRule::kFirstDense,
       .router = BiasedSigmoidRule(),
       .shared = SharedRule::kCount,
       .layouts = kDeepseek,
       .ignored = kWithDense},
      {.name = "gpt_oss",
       .model_types = kGptOssTypes,
       .gguf = {.architecture = "gpt-oss"},
       .experts_key = "num_local_experts",
       .experts_alias = "num_experts",
       .width_key = "intermediate_size",
       .router = TopKSoftmaxRule(true),
       .activation = ActivationKind::kSwiGluOai,
       .alpha = 1.702,
       .expert_bias = true,
       .dtype = "bf16",
       .layouts = kGptOss,
       .ignored = kUsualIgnored},
      {.name = "llama4",
       .model_types = kLlama4Types,
       .text_config = "text_config",
       .gguf = {.architecture = "llama4"},
       .experts_key = "num_local_experts",
       .width_key = "intermediate_size",
       .layers = LayerRule::kInterleave,
       .router = Llama4Rule(),
       .shared = SharedRule::kOne,
       .layer = "language_model.model.layers.{layer}.",
       .block = "feed_forward.",
       .layouts = kLlama4,
       .ignored = kLlama4Ignored},
      {.name = "granitemoe",
       .model_types = kGraniteTypes,
       .gguf = {.architecture = "granitemoe", .one_width = true},
       .experts_key = "num_local_experts",
       .width_key = "intermediate_size",
       .router = TopKSoftmaxRule(false),
       .block = "block_sparse_moe.",
       .layouts = kGranite,
       .ignored = kUsualIgnored},
      {.name = "jamba",
       .model_types = kJambaTypes,
       .gguf = {.architecture = "jamba", .one_width = true},
       .experts_alias = "num_local_experts",
       .width_key = "intermediate_size",
       .attention = AttentionRule::kOther,
       .layers = LayerRule::kPeriodOffset,
       .router = SoftmaxRule(NormRule::kNever),
       .block = "feed_forward.",
       .layouts = kJamba,
       .ignored = kJambaIgnored},
  };
  return rows;
}

}  // namespace

absl::Span<const Family> Families() { return Rows(); }
absl::Span<const TensorLayout> GgufLayouts() { return kGguf; }
absl::Span<const char* const> GgufIgnored() { return kGgufIgnoredNames; }

const Family* FamilyOfModelType(absl::string_view model_type) {
  for (const Family& family : Families()) {
    for (const char* known : family.model_types) {
      if (model_type == known) return &family;
    }
  }
  return nullptr;
}

std::vector<absl::string_view> ModelTypes() {
  std::vector<absl::string_view> words;
  for (const Family& family : Families()) {
    for (const char* known : family.model_types) words.emplace_back(known);
  }
  return words;
}

std::vector<absl::string_view> Architectures() {
  std::vector<absl::string_view> words;
  for (const Family& family : Families()) {
    const char* architecture = family.gguf.architecture;
    if (architecture == nullptr) continue;
    if (words.empty() || words.back() != architecture) words.emplace_back(architecture);
  }
  return words;
}

}  // namespace meshseal::compiler
