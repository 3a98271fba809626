#include "compiler/import/hf_config.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/checked_math.h"
#include "schema/nearest.h"
#include "schema/quoted_name.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::compiler {
namespace {

absl::StatusOr<const Family*> ReadFamily(const ConfigFields& config) {
  MESHSEAL_ASSIGN_OR_RETURN(const std::string type, config.Text("model_type", "the name of the model's family"));
  const Family* family = FamilyOfModelType(type);
  if (family != nullptr) return family;
  const std::vector<absl::string_view> known = ModelTypes();
  const std::optional<absl::string_view> nearest = Nearest(type, known);
  return config.Refuse(
      "model_type", absl::StrCat("unknown family ", QuotedName(type),
                                 nearest.has_value() ? absl::StrCat("; the nearest known one is '", *nearest, "'") : "",
                                 "; known are ", absl::StrJoin(known, ", ")));
}

// A field that has one value only in this family, where it stands.
absl::Status ExpectText(const ConfigFields& config, absl::string_view key, absl::string_view expected) {
  if (!config.Has(key)) return absl::OkStatus();
  MESHSEAL_ASSIGN_OR_RETURN(const std::string found, config.Text(key, "a check"));
  if (found == expected) return absl::OkStatus();
  return config.Refuse(key, absl::StrCat("found ", config.Found(key), ", this family has \"", expected, "\""));
}

absl::Status ExpectNumber(const ConfigFields& config, absl::string_view key, double expected) {
  if (!config.Has(key)) return absl::OkStatus();
  MESHSEAL_ASSIGN_OR_RETURN(const double found, config.Number(key, "a check"));
  if (found == expected) return absl::OkStatus();
  return config.Refuse(key, absl::StrCat("found ", config.Found(key), ", this family has ", expected));
}

absl::Status ExpectFalse(const ConfigFields& config, absl::string_view key) {
  if (!config.Has(key)) return absl::OkStatus();
  MESHSEAL_ASSIGN_OR_RETURN(const bool found, config.Flag(key, "a check"));
  if (!found) return absl::OkStatus();
  return config.Refuse(key, "found true, this family has false");
}

// Facts of other families: they would change the result, and this one has no place for them.
absl::Status RefuseForeignFacts(const Family& family, const ConfigFields& config) {
  MESHSEAL_ASSIGN_OR_RETURN(const std::string act, config.Text("hidden_act", "the experts' activation"));
  if (act != "silu")
    return config.Refuse("hidden_act", absl::StrCat("found ", config.Found("hidden_act"), ", known is \"silu\""));
  MESHSEAL_RETURN_IF_ERROR(ExpectFalse(config, "mlp_bias"));
  const RouterRule& rule = family.router;
  if (rule.input == RouterInput::kF32) MESHSEAL_RETURN_IF_ERROR(ExpectText(config, "moe_router_dtype", "float32"));
  if (rule.scoring_word != nullptr) {
    if (rule.scoring_stated) MESHSEAL_RETURN_IF_ERROR(config.Text("scoring_func", "the router's scores").status());
    MESHSEAL_RETURN_IF_ERROR(ExpectText(config, "scoring_func", rule.scoring_word));
  } else if (config.Has("scoring_func")) {
    MESHSEAL_RETURN_IF_ERROR(ExpectText(config, "scoring_func",
                                        rule.scoring == Scoring::kSparsemixer ? "sparsemixer" : WordOf(rule.scoring)));
  }
  if (!rule.scaled) MESHSEAL_RETURN_IF_ERROR(ExpectNumber(config, "routed_scaling_factor", 1));
  if (rule.groups == GroupScore::kInvalid) {
    MESHSEAL_RETURN_IF_ERROR(ExpectNumber(config, "n_group", 1));
    MESHSEAL_RETURN_IF_ERROR(ExpectNumber(config, "topk_group", 1));
  }
  if (rule.selection_bias != BiasRule::kUseRoutingBias)
    MESHSEAL_RETURN_IF_ERROR(ExpectFalse(config, "use_routing_bias"));
  if (rule.selection_bias == BiasRule::kAlways) MESHSEAL_RETURN_IF_ERROR(ExpectText(config, "topk_method", "noaux_tc"));
  if (!rule.token_table) MESHSEAL_RETURN_IF_ERROR(ExpectNumber(config, "num_hash_layers", 0));
  const bool clamps =
      family.activation == ActivationKind::kSwiGluOai || family.activation == ActivationKind::kSwiGluPreclamp;
  if (!clamps && config.Has("swiglu_limit")) {
    return config.Refuse("swiglu_limit",
                         absl::StrCat("found ", config.Found("swiglu_limit"), ", this family does not clamp"));
  }
  if (family.activation == ActivationKind::kSwiGluOai)
    MESHSEAL_RETURN_IF_ERROR(ExpectNumber(config, "swiglu_alpha", family.alpha));
  if (family.shared != SharedRule::kCount) {
    MESHSEAL_RETURN_IF_ERROR(ExpectNumber(config, "n_shared_experts", 0));
    MESHSEAL_RETURN_IF_ERROR(ExpectNumber(config, "num_shared_experts", 0));
  }
  if (family.shared != SharedRule::kWidth)
    MESHSEAL_RETURN_IF_ERROR(ExpectNumber(config, "shared_expert_intermediate_size", 0));
  return ExpectNumber(config, "shared_intermediate_size", 0);
}

absl::StatusOr<std::optional<DType>> ReadModelDType(const Family& family, const ConfigFields& config,
                                                    const ConfigFields& text) {
  for (const ConfigFields* fields : {&text, &config}) {
    for (const char* key : {"torch_dtype", "dtype"}) {
      if (!fields->Has(key)) continue;
      MESHSEAL_ASSIGN_OR_RETURN(const std::string word, fields->Text(key, "the model's dtype"));
      if (word == "bfloat16") return std::optional<DType>(DType::kBf16);
      if (word == "float16") return std::optional<DType>(DType::kF16);
      if (word == "float32") return std::optional<DType>(DType::kF32);
      return fields->Refuse(
          key, absl::StrCat("found ", fields->Found(key), ", expected \"bfloat16\", \"float16\" or \"float32\""));
    }
  }
  if (family.dtype != nullptr) return DTypeFromName(family.dtype);
  return std::optional<DType>();
}

absl::Status ReadAttention(const Family& family, const ConfigFields& config, Manifest& manifest) {
  if (family.attention == AttentionRule::kOther) return absl::OkStatus();
  AttentionSpec attention;
  MESHSEAL_ASSIGN_OR_RETURN(attention.heads.value,
                            config.Unsigned("num_attention_heads", 1, kMaxSize, "the number of attention heads"));
  MESHSEAL_ASSIGN_OR_RETURN(attention.kv_heads.value,
                            config.Unsigned("num_key_value_heads", 1, kMaxSize, "the number of KV heads"));
  if (family.attention == AttentionRule::kLatent) {
    MESHSEAL_ASSIGN_OR_RETURN(const uint64_t plain,
                              config.Unsigned("qk_nope_head_dim", 1, kMaxSize, "a part of a head"));
    MESHSEAL_ASSIGN_OR_RETURN(const uint64_t rotary,
                              config.Unsigned("qk_rope_head_dim", 1, kMaxSize, "a part of a head"));
    attention.head_dim.value = plain + rotary;
  } else if (config.Has("head_dim")) {
    MESHSEAL_ASSIGN_OR_RETURN(attention.head_dim.value, config.Unsigned("head_dim", 1, kMaxSize, "the size of a head"));
  } else {
    attention.head_dim.value = manifest.hidden_size.value / attention.heads.value;
    if (attention.head_dim.value * attention.heads.value != manifest.hidden_size.value) {
      return config.Refuse("head_dim", absl::StrCat("absent, and ", attention.heads.value,
                                                    " heads do not divide hidden_size ", manifest.hidden_size.value));
    }
  }
  manifest.attention = attention;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint32_t>> ReadMoeLayers(const Family& family, const ConfigFields& config, uint64_t layers) {
  uint64_t first = 0;
  uint64_t step = 1;
  uint64_t offset = 0;  // of the layer number before it is divided by `step`
  std::vector<uint64_t> dense;
  switch (family.layers) {
    case LayerRule::kAll:
      break;
    case LayerRule::kFirstDense: {
      MESHSEAL_ASSIGN_OR_RETURN(
          first, config.Unsigned("first_k_dense_replace", 0, layers, "the number of leading dense layers"));
      if (config.Has("moe_layer_freq")) {
        MESHSEAL_ASSIGN_OR_RETURN(step, config.Unsigned("moe_layer_freq", 1, kMaxSize, "the step between MoE layers"));
      }
      break;
    }
    case LayerRule::kSparseStep: {
      MESHSEAL_ASSIGN_OR_RETURN(step,
                                config.Unsigned("decoder_sparse_step", 1, kMaxSize, "the step between MoE layers"));
      offset = 1;
      if (config.Has("mlp_only_layers")) {
        MESHSEAL_ASSIGN_OR_RETURN(dense, config.Unsigneds("mlp_only_layers", kMaxSize, "the dense layers"));
      }
      break;
    }
    case LayerRule::kInterleave: {
      if (config.Has("moe_layers")) {
        MESHSEAL_ASSIGN_OR_RETURN(std::vector<uint64_t> listed,
                                  config.Unsigneds("moe_layers", layers - 1, "the MoE layers"));
        std::sort(listed.begin(), listed.end());
        if (std::adjacent_find(listed.begin(), listed.end()) != listed.end()) {
          return config.Refuse("moe_layers", "a layer stands twice");
        }
        return std::vector<uint32_t>(listed.begin(), listed.end());
      }
      MESHSEAL_ASSIGN_OR_RETURN(
          step, config.Unsigned("interleave_moe_layer_step", 1, kMaxSize, "the step between MoE layers"));
      offset = 1;
      break;
    }
    case LayerRule::kPeriodOffset: {
      MESHSEAL_ASSIGN_OR_RETURN(step,
                                config.Unsigned("expert_layer_period", 1, kMaxSize, "the step between MoE layers"));
      MESHSEAL_ASSIGN_OR_RETURN(const uint64_t at,
                                config.Unsigned("expert_layer_offset", 0, step - 1, "the first MoE layer"));
      offset = step - at;
      break;
    }
  }
  std::vector<uint32_t> moe;
  for (uint64_t layer = first; layer < layers; ++layer) {
    const bool is_dense = std::find(dense.begin(), dense.end(), layer) != dense.end();
    if ((layer + offset) % step == 0 && !is_dense) moe.push_back(static_cast<uint32_t>(layer));
  }
  if (config.Has("mlp_layer_types") && !family.router.token_table) {
    MESHSEAL_ASSIGN_OR_RETURN(const std::vector<std::string> types, config.Texts("mlp_layer_types", "a check"));
    std::vector<uint32_t> sparse;
    for (size_t i = 0; i < types.size(); ++i) {
      if (types[i] == "sparse") sparse.push_back(static_cast<uint32_t>(i));
      if (types[i] != "sparse" && types[i] != "dense") {
        return config.Refuse("mlp_layer_types",
                             absl::StrCat("found ", QuotedName(types[i]), ", expected 'dense' or 'sparse'"));
      }
    }
    if (types.size() != layers || sparse != moe) {
      return config.Refuse("mlp_layer_types",
                           absl::StrCat("disagrees with the other fields: ", sparse.size(), " sparse layers of ",
                                        types.size(), ", expected ", moe.size(), " of ", layers));
    }
  }
  return moe;
}

// How many leading layers choose by token id: a number, or as each layer's type, or both.
absl::StatusOr<uint64_t> ReadHashLayers(const ConfigFields& config, uint64_t layers) {
  constexpr absl::string_view kNumber = "num_hash_layers";
  constexpr absl::string_view kTypes = "mlp_layer_types";
  if (!config.Has(kTypes)) return config.Unsigned(kNumber, 0, layers, "the layers that choose by token id");
  MESHSEAL_ASSIGN_OR_RETURN(const std::vector<std::string> types,
                            config.Texts(kTypes, "the layers that choose by token id"));
  if (types.size() != layers) {
    return config.Refuse(kTypes, absl::StrCat("has ", types.size(), " layers, expected ", layers));
  }
  uint64_t hashed = 0;
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] != "hash_moe" && types[i] != "moe") {
      return config.Refuse(kTypes, absl::StrCat("found ", QuotedName(types[i]), ", expected 'hash_moe' or 'moe'"));
    }
    if (types[i] != "hash_moe") continue;
    if (hashed != i) {
      return config.Refuse(kTypes, absl::StrCat("layer ", i,
                                                " is 'hash_moe' after one that is not; this family has "
                                                "such layers at the start"));
    }
    ++hashed;
  }
  MESHSEAL_RETURN_IF_ERROR(ExpectNumber(config, kNumber, static_cast<double>(hashed)));
  return hashed;
}

absl::Status ReadRouter(const Family& family, const ConfigFields& config, const std::optional<DType>& dtype,
                        uint64_t layers, MoeSpec& moe) {
  const RouterRule& rule = family.router;
  RouterSpec& router = moe.router;
  router.scoring.value = rule.scoring;
  router.order.value = rule.order;
  router.weight_applied.value = rule.weight;
  router.logit_bias.value = rule.logit_bias;
  router.scale.value = 1;
  router.renormalize.value = Renormalize::kNone;

  if (rule.scoring == Scoring::kSparsemixer) {
    MESHSEAL_ASSIGN_OR_RETURN(router.epsilon.value, config.Number("router_jitter_noise", "sparsemixer's eps"));
    if (router.epsilon.value <= 0) return config.Refuse("router_jitter_noise", "expected a number above 0");
    if (moe.experts_per_token.value != 2) {
      return config.Refuse("num_experts_per_tok",
                           absl::StrCat("found ", moe.experts_per_token.value, ", sparsemixer selects 2 experts"));
    }
  }
  bool divided = rule.norm == NormRule::kAlways;
  if (rule.norm == NormRule::kKey) {
    MESHSEAL_ASSIGN_OR_RETURN(divided,
                              config.Flag("norm_topk_prob", "whether the chosen scores are divided by their sum"));
  }
  if (rule.norm == NormRule::kKeyFalse) {
    if (config.Has("norm_topk_prob")) {
      MESHSEAL_ASSIGN_OR_RETURN(const bool norm, config.Flag("norm_topk_prob", "a check"));
      if (norm) {
        return config.Refuse("norm_topk_prob", "found true, which the family's public implementations do not agree on");
      }
    }
  } else if (rule.norm == NormRule::kAlways && config.Has("norm_topk_prob")) {
    MESHSEAL_ASSIGN_OR_RETURN(const bool norm, config.Flag("norm_topk_prob", "a check"));
    if (!norm) return config.Refuse("norm_topk_prob", "found false, this family always divides by the sum");
  } else if (rule.norm == NormRule::kNever) {
    MESHSEAL_RETURN_IF_ERROR(ExpectFalse(config, "norm_topk_prob"));
  }
  if (divided) {
    router.renormalize.value = rule.renormalize;
    router.guard.value = rule.guard;
  }
  if (rule.scaled) {
    MESHSEAL_ASSIGN_OR_RETURN(router.scale.value, config.Number("routed_scaling_factor", "the routed scale"));
    if (router.scale.value <= 0) return config.Refuse("routed_scaling_factor", "expected a number above 0");
  }
  if (rule.selection_bias == BiasRule::kAlways) router.selection_bias.value = true;
  if (rule.selection_bias == BiasRule::kUseRoutingBias) {
    MESHSEAL_ASSIGN_OR_RETURN(router.selection_bias.value,
                              config.Flag("use_routing_bias", "whether selection has a bias"));
  }
  if (rule.groups != GroupScore::kInvalid) {
    // The older rule has a switch of its own; its name decides whether n_group means anything.
    bool grouped = true;
    if (rule.groups == GroupScore::kMax) {
      MESHSEAL_ASSIGN_OR_RETURN(const std::string method,
                                config.Text("topk_method", "whether groups of experts are kept"));
      if (method != "greedy" && method != "group_limited_greedy") {
        return config.Refuse("topk_method", absl::StrCat("found ", config.Found("topk_method"),
                                                         ", known are \"greedy\" and \"group_limited_greedy\""));
      }
      grouped = method == "group_limited_greedy";
    }
    if (grouped) {
      MESHSEAL_ASSIGN_OR_RETURN(const uint64_t count,
                                config.Unsigned("n_group", 1, moe.experts.value, "the number of expert groups"));
      MESHSEAL_ASSIGN_OR_RETURN(const uint64_t keep,
                                config.Unsigned("topk_group", 1, count, "the groups that are kept"));
      if (moe.experts.value % count != 0) {
        return config.Refuse("n_group", absl::StrCat(count, " groups do not divide ", moe.experts.value, " experts"));
      }
      if (count > 1) {
        RouterGroupsSpec groups;
        groups.count.value = count;
        groups.keep.value = keep;
        groups.score.value = rule.groups;
        router.groups = groups;
      }
    }
  }
  if (rule.token_table) {
    MESHSEAL_ASSIGN_OR_RETURN(const uint64_t hashed, ReadHashLayers(config, layers));
    if (hashed > 0) {
      router.token_table_layers.value = {{0, static_cast<uint32_t>(hashed)}};
      MESHSEAL_ASSIGN_OR_RETURN(router.vocabulary.value,
                                config.Unsigned("vocab_size", 1, kMostTokenIds, "the rows of the token table"));
    }
  }
  router.input_dtype.value = Basis::kF32;
  if (rule.input == RouterInput::kModel) {
    if (!dtype.has_value())
      return config.Refuse("torch_dtype", "absent; it is needed as the dtype of the router's product");
    if (*dtype == DType::kF16) {
      return config.Refuse("torch_dtype",
                           "found \"float16\"; the router's product would be float16, expected bfloat16 or float32");
    }
    router.input_dtype.value = *dtype == DType::kF32 ? Basis::kF32 : Basis::kBf16;
  }
  return absl::OkStatus();
}

absl::Status ReadSharedExpert(const Family& family, const ConfigFields& config, MoeSpec& moe) {
  SharedExpertSpec shared;
  shared.gate.value = SharedGate::kNone;
  switch (family.shared) {
    case SharedRule::kNone:
      return absl::OkStatus();
    case SharedRule::kOne:
      shared.width.value = moe.intermediate_size.value;
      break;
    case SharedRule::kWidth: {
      MESHSEAL_ASSIGN_OR_RETURN(shared.width.value, config.Unsigned("shared_expert_intermediate_size", 1, kMaxSize,
                                                                    "the width of the shared expert"));
      shared.gate.value = SharedGate::kSigmoid;
      break;
    }
    case SharedRule::kCount: {
      if (!config.Has("n_shared_experts") && family.router.groups == GroupScore::kMax) return absl::OkStatus();
      MESHSEAL_ASSIGN_OR_RETURN(const uint64_t count,
                                config.Unsigned("n_shared_experts", 0, 1024, "the number of shared experts"));
      if (count == 0) return absl::OkStatus();
      const std::optional<uint64_t> width = CheckedMul(count, moe.intermediate_size.value);
      if (!width.has_value() || *width > kMaxSize) {
        return config.Refuse("n_shared_experts", absl::StrCat(count, " experts of ", moe.intermediate_size.value,
                                                              " columns are wider than ", kMaxSize));
      }
      shared.width.value = *width;
      break;
    }
  }
  moe.shared_expert = shared;
  return absl::OkStatus();
}

absl::Status ReadActivation(const Family& family, const ConfigFields& config, MoeSpec& moe) {
  moe.activation.kind.value = family.activation;
  if (family.activation == ActivationKind::kSwiGluOai) moe.activation.alpha = Spanned<double>{family.alpha, {}};
  if (family.activation == ActivationKind::kSwiGluOai || family.activation == ActivationKind::kSwiGluPreclamp) {
    MESHSEAL_ASSIGN_OR_RETURN(const double limit, config.Number("swiglu_limit", "the clamp of gate and up"));
    if (limit <= 0) return config.Refuse("swiglu_limit", "expected a number above 0");
    moe.activation.limit = Spanned<double>{limit, {}};
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ConfigFields> TextConfig(const ConfigFields& config, const Family& family) {
  if (family.text_config == nullptr) return config;
  return config.Map(family.text_config, "the language model's part");
}

absl::StatusOr<ModelFacts> ReadHfConfig(const ConfigFields& config, absl::string_view name) {
  ModelFacts facts;
  MESHSEAL_ASSIGN_OR_RETURN(facts.family, ReadFamily(config));
  const Family& family = *facts.family;
  MESHSEAL_ASSIGN_OR_RETURN(const ConfigFields text, TextConfig(config, family));
  MESHSEAL_ASSIGN_OR_RETURN(const std::string type, config.Text("model_type", "the name of the model's family"));
  facts.manifest = EmptyImport(name, type);
  Manifest& manifest = facts.manifest;
  manifest.source.value = WeightSource::kSafetensors;
  MoeSpec& moe = manifest.groups[0].moe;

  MESHSEAL_ASSIGN_OR_RETURN(manifest.hidden_size.value,
                            text.Unsigned("hidden_size", 1, kMaxSize, "the width of a token's row"));
  MESHSEAL_ASSIGN_OR_RETURN(manifest.layers.value,
                            text.Unsigned("num_hidden_layers", 1, kMostImportedLayers, "the number of layers"));
  MESHSEAL_RETURN_IF_ERROR(RefuseForeignFacts(family, text));
  MESHSEAL_ASSIGN_OR_RETURN(facts.dtype, ReadModelDType(family, config, text));
  MESHSEAL_RETURN_IF_ERROR(ReadAttention(family, text, manifest));

  const bool by_alias =
      !text.Has(family.experts_key) && family.experts_alias != nullptr && text.Has(family.experts_alias);
  MESHSEAL_ASSIGN_OR_RETURN(moe.experts.value, text.Unsigned(by_alias ? family.experts_alias : family.experts_key, 1,
                                                             kMaxSize, "the number of experts"));
  MESHSEAL_ASSIGN_OR_RETURN(moe.experts_per_token.value,
                            text.Unsigned("num_experts_per_tok", 1, moe.experts.value, "the experts a token selects"));
  // Some files carry several of the words.
  for (const char* alias : {"num_experts", "num_local_experts", "n_routed_experts"}) {
    MESHSEAL_RETURN_IF_ERROR(ExpectNumber(text, alias, static_cast<double>(moe.experts.value)));
  }
  MESHSEAL_RETURN_IF_ERROR(ExpectNumber(text, "experts_per_token", static_cast<double>(moe.experts_per_token.value)));
  MESHSEAL_ASSIGN_OR_RETURN(moe.intermediate_size.value,
                            text.Unsigned(family.width_key, 1, kMaxSize, "the width of an expert"));

  MESHSEAL_ASSIGN_OR_RETURN(const std::vector<uint32_t> layers, ReadMoeLayers(family, text, manifest.layers.value));
  if (layers.empty()) return text.Refuse("num_hidden_layers", "none of the layers has experts");
  manifest.moe_layers.value = RangesOf(layers);
  manifest.groups[0].layers = manifest.moe_layers.value;
  MESHSEAL_RETURN_IF_ERROR(ReadRouter(family, text, facts.dtype, manifest.layers.value, moe));
  MESHSEAL_RETURN_IF_ERROR(ReadActivation(family, text, moe));
  MESHSEAL_RETURN_IF_ERROR(ReadSharedExpert(family, text, moe));

  if (family.mtp_key != nullptr && text.Has(family.mtp_key)) {
    MESHSEAL_ASSIGN_OR_RETURN(manifest.mtp_layers.value,
                              text.Unsigned(family.mtp_key, 0, kMostImportedMtpLayers, "the number of extra blocks"));
    facts.mtp_stated = true;
  }
  return facts;
}

}  // namespace meshseal::compiler
