#include "compiler/import/gguf_config.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/checked_math.h"
#include "schema/nearest.h"
#include "schema/quoted_name.h"
#include "schema/reason.h"
#include "schema/status_macros.h"

namespace meshseal::compiler {
namespace {

// Values of expert_gating_func.
enum class Gating : uint64_t { kSoftmax = 1, kSigmoid = 2, kSoftmaxOfChosen = 3, kSqrtSoftplus = 4 };

const char* GatingText(uint64_t value) {
  switch (static_cast<Gating>(value)) {
    case Gating::kSoftmax:
      return "1 (softmax)";
    case Gating::kSigmoid:
      return "2 (sigmoid)";
    case Gating::kSoftmaxOfChosen:
      return "3 (softmax over the chosen)";
    case Gating::kSqrtSoftplus:
      return "4 (square root of softplus)";
  }
  return nullptr;
}

// Whether a family's router may be written with this value. Files say softmax for both orders of top-k and softmax.
bool MayGate(const RouterRule& rule, uint64_t value) {
  switch (rule.scoring) {
    case Scoring::kSoftmax:
      return value == static_cast<uint64_t>(Gating::kSoftmax) ||
             (rule.order == RouteOrder::kTopKThenScore && value == static_cast<uint64_t>(Gating::kSoftmaxOfChosen));
    case Scoring::kSigmoid:
      return value == static_cast<uint64_t>(Gating::kSigmoid);
    case Scoring::kSqrtSoftplus:
      return value == static_cast<uint64_t>(Gating::kSqrtSoftplus);
    case Scoring::kSparsemixer:
    case Scoring::kPrecomputed:
    case Scoring::kInvalid:
      break;
  }
  return false;
}

// The keys of one architecture.
class Keys {
 public:
  Keys(absl::string_view place, const GgufMetadata& metadata, std::string architecture)
      : place_(place), metadata_(metadata), architecture_(std::move(architecture)) {}

  const std::string& architecture() const { return architecture_; }

  std::string Key(absl::string_view name) const { return absl::StrCat(architecture_, ".", name); }
  bool Has(absl::string_view name) const { return metadata_.Has(Key(name)); }

  absl::Status Refuse(absl::string_view name, absl::string_view text) const {
    return meshseal::Refuse(Reason::kImport, absl::StrCat(place_, ": key ", QuotedName(Key(name)), ": ", text));
  }
  absl::Status RefuseAbsent(absl::string_view name, absl::string_view meaning) const {
    return Refuse(name, absl::StrCat("absent; it is needed as ", meaning));
  }

  absl::StatusOr<uint64_t> Unsigned(absl::string_view name, uint64_t least, uint64_t most,
                                    absl::string_view meaning) const {
    MESHSEAL_ASSIGN_OR_RETURN(const std::optional<uint64_t> value, metadata_.Unsigned(Key(name)));
    if (!value.has_value()) return RefuseAbsent(name, meaning);
    if (*value < least || *value > most) {
      return Refuse(name, absl::StrCat("found ", *value, ", expected a whole number from ", least, " to ", most));
    }
    return *value;
  }
  absl::StatusOr<std::optional<double>> Number(absl::string_view name) const { return metadata_.Number(Key(name)); }
  absl::StatusOr<std::optional<bool>> Flag(absl::string_view name) const { return metadata_.Bool(Key(name)); }

  // One number, or the one that all layers' entries have; nothing where they differ, zeros left out.
  absl::StatusOr<std::optional<uint64_t>> OneUnsigned(absl::string_view name, absl::string_view meaning) const {
    if (!absl::StartsWith(metadata_.TypeOf(Key(name)), "array")) {
      MESHSEAL_ASSIGN_OR_RETURN(const uint64_t value, Unsigned(name, 1, kMaxSize, meaning));
      return std::optional<uint64_t>(value);
    }
    MESHSEAL_ASSIGN_OR_RETURN(const std::optional<std::vector<uint64_t>> values, metadata_.Unsigneds(Key(name)));
    std::optional<uint64_t> one;
    for (const uint64_t value : values.value_or(std::vector<uint64_t>())) {
      if (value == 0) continue;
      if (value > kMaxSize || (one.has_value() && *one != value)) return std::optional<uint64_t>();
      one = value;
    }
    return one;
  }
  // Likewise of numbers, which are positive.
  absl::StatusOr<double> OneNumber(absl::string_view name, absl::string_view meaning) const {
    std::vector<double> values;
    if (absl::StartsWith(metadata_.TypeOf(Key(name)), "array")) {
      MESHSEAL_ASSIGN_OR_RETURN(const std::optional<std::vector<double>> listed, metadata_.Numbers(Key(name)));
      values = listed.value_or(std::vector<double>());
    } else {
      MESHSEAL_ASSIGN_OR_RETURN(const std::optional<double> value, Number(name));
      if (value.has_value()) values = {*value};
    }
    if (values.empty()) return RefuseAbsent(name, meaning);
    for (const double value : values) {
      if (value == values[0] && value > 0) continue;
      return Refuse(name, absl::StrCat("found ", value, ", expected one number above 0 for all layers"));
    }
    return values[0];
  }

 private:
  const absl::string_view place_;
  const GgufMetadata& metadata_;
  const std::string architecture_;
};

// The family of an architecture; of two that share one, that whose router the file has.
absl::StatusOr<const Family*> ReadFamily(absl::string_view place, const Keys& keys) {
  std::vector<const Family*> families;
  for (const Family& family : Families()) {
    if (family.gguf.architecture != nullptr && keys.architecture() == family.gguf.architecture)
      families.push_back(&family);
  }
  if (families.empty()) {
    const std::vector<absl::string_view> known = Architectures();
    const std::optional<absl::string_view> nearest = Nearest(keys.architecture(), known);
    return Refuse(
        Reason::kImport,
        absl::StrCat(place, ": key 'general.architecture': unknown architecture ", QuotedName(keys.architecture()),
                     nearest.has_value() ? absl::StrCat("; the nearest known one is '", *nearest, "'") : "",
                     "; known are ", absl::StrJoin(known, ", ")));
  }
  constexpr absl::string_view kGating = "expert_gating_func";
  std::optional<uint64_t> gating;
  if (keys.Has(kGating) || families[0]->gguf.gating_stated) {
    MESHSEAL_ASSIGN_OR_RETURN(gating, keys.Unsigned(kGating, 0, 1 << 16, "the router's scores"));
  }
  for (const Family* family : families) {
    if (!gating.has_value() || MayGate(family->router, *gating)) return family;
  }
  const char* text = GatingText(*gating);
  return keys.Refuse(kGating, absl::StrCat("found ", text == nullptr ? absl::StrCat(*gating) : text,
                                           ", which no family of ", QuotedName(keys.architecture()), " has"));
}

absl::Status ReadAttention(const Family& family, const Keys& keys, Manifest& manifest) {
  if (family.attention == AttentionRule::kOther) return absl::OkStatus();
  MESHSEAL_ASSIGN_OR_RETURN(const std::optional<uint64_t> heads,
                            keys.OneUnsigned("attention.head_count", "the number of attention heads"));
  MESHSEAL_ASSIGN_OR_RETURN(const std::optional<uint64_t> kv_heads,
                            keys.OneUnsigned("attention.head_count_kv", "the number of KV heads"));
  if (!heads.has_value() || !kv_heads.has_value()) return absl::OkStatus();  // attention differs by layer
  AttentionSpec attention;
  attention.heads.value = *heads;
  // Latent attention gives every head keys of its own; files say one KV head for the latent row.
  const bool latent = family.attention == AttentionRule::kLatent;
  attention.kv_heads.value = latent ? *heads : *kv_heads;
  const char* size =
      latent && keys.Has("attention.key_length_mla") ? "attention.key_length_mla" : "attention.key_length";
  if (keys.Has(size)) {
    MESHSEAL_ASSIGN_OR_RETURN(attention.head_dim.value, keys.Unsigned(size, 1, kMaxSize, "the size of a head"));
  } else if (latent || manifest.hidden_size.value % *heads != 0) {
    return keys.RefuseAbsent(size, "the size of a head");
  } else {
    attention.head_dim.value = manifest.hidden_size.value / *heads;
  }
  manifest.attention = attention;
  return absl::OkStatus();
}

absl::Status ReadMoeLayers(const Family& family, const Keys& keys, ModelFacts& facts) {
  const uint64_t layers = facts.manifest.layers.value;
  uint64_t first = 0;
  uint64_t step = 1;
  switch (family.layers) {
    case LayerRule::kAll:
    case LayerRule::kSparseStep:  // such files have experts in every layer
      break;
    case LayerRule::kFirstDense: {
      MESHSEAL_ASSIGN_OR_RETURN(
          first, keys.Unsigned("leading_dense_block_count", 0, layers - 1, "the number of leading dense layers"));
      break;
    }
    case LayerRule::kInterleave: {
      MESHSEAL_ASSIGN_OR_RETURN(step,
                                keys.Unsigned("interleave_moe_layer_step", 1, layers, "the step between MoE layers"));
      first = step - 1;
      break;
    }
    case LayerRule::kPeriodOffset:
      facts.layers_from_tensors = true;
      break;
  }
  std::vector<uint32_t> moe;
  for (uint64_t layer = first; layer < layers; layer += step) moe.push_back(static_cast<uint32_t>(layer));
  facts.manifest.moe_layers.value = RangesOf(moe);
  facts.manifest.groups[0].layers = facts.manifest.moe_layers.value;
  return absl::OkStatus();
}

absl::Status ReadRouter(const Family& family, const Keys& keys, uint64_t layers, MoeSpec& moe) {
  const RouterRule& rule = family.router;
  RouterSpec& router = moe.router;
  router.scoring.value = rule.scoring;
  router.order.value = rule.order;
  router.weight_applied.value = rule.weight;
  router.logit_bias.value = rule.logit_bias;
  router.selection_bias.value = rule.selection_bias != BiasRule::kNone;
  router.input_dtype.value = Basis::kF32;  // such files are computed in float32
  router.renormalize.value = Renormalize::kNone;
  router.scale.value = 1;
  if (rule.scoring == Scoring::kSparsemixer) {
    return keys.Refuse("expert_count",
                       "GGUF files do not say eps, which sparsemixer needs; import the original checkpoint");
  }

  bool divided = family.gguf.norm == NormRule::kAlways;
  MESHSEAL_ASSIGN_OR_RETURN(const std::optional<bool> norm, keys.Flag("expert_weights_norm"));
  if (family.gguf.norm == NormRule::kKey) {
    if (!norm.has_value()) {
      return keys.RefuseAbsent("expert_weights_norm", "whether the chosen scores are divided by their sum");
    }
    divided = *norm;
  } else if (norm.has_value() && *norm != divided && rule.order == RouteOrder::kScoreThenTopK) {
    return keys.Refuse("expert_weights_norm", absl::StrCat("found ", *norm ? "true" : "false", ", the family ",
                                                           family.name, " has ", divided ? "true" : "false"));
  }
  if (divided) {
    router.renormalize.value = rule.renormalize;
    router.guard.value = rule.guard;
  }

  MESHSEAL_ASSIGN_OR_RETURN(const std::optional<double> scale, keys.Number("expert_weights_scale"));
  if (rule.scaled && !scale.has_value()) return keys.RefuseAbsent("expert_weights_scale", "the routed scale");
  // Readers of such files take 0 for 1.
  const double factor = scale.value_or(1) == 0 ? 1 : scale.value_or(1);
  if (!(factor > 0) || (!rule.scaled && factor != 1)) {
    return keys.Refuse("expert_weights_scale", absl::StrCat("found ", *scale, ", expected ",
                                                            rule.scaled ? "a number above 0" : "1 in this family"));
  }
  router.scale.value = factor;

  constexpr const char* kGroups = "expert_group_count";
  constexpr const char* kKept = "expert_group_used_count";
  if (rule.groups != GroupScore::kInvalid && (family.gguf.groups_stated || keys.Has(kGroups) || keys.Has(kKept))) {
    MESHSEAL_ASSIGN_OR_RETURN(const uint64_t count,
                              keys.Unsigned(kGroups, 1, moe.experts.value, "the number of expert groups"));
    MESHSEAL_ASSIGN_OR_RETURN(const uint64_t keep, keys.Unsigned(kKept, 1, count, "the groups that are kept"));
    if (moe.experts.value % count != 0) {
      return keys.Refuse(kGroups, absl::StrCat(count, " groups do not divide ", moe.experts.value, " experts"));
    }
    if (count > 1) {
      RouterGroupsSpec groups;
      groups.count.value = count;
      groups.keep.value = keep;
      groups.score.value = rule.groups;
      router.groups = groups;
    }
  }
  if (rule.token_table) {
    MESHSEAL_ASSIGN_OR_RETURN(const uint64_t hashed,
                              keys.Unsigned("hash_layer_count", 0, layers, "the layers that choose by token id"));
    if (hashed > 0) {
      router.token_table_layers.value = {{0, static_cast<uint32_t>(hashed)}};
      MESHSEAL_ASSIGN_OR_RETURN(router.vocabulary.value,
                                keys.Unsigned("vocab_size", 1, kMostTokenIds, "the rows of the token table"));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadExperts(const Family& family, const Keys& keys, MoeSpec& moe) {
  const char* width = "expert_feed_forward_length";
  if (family.gguf.one_width && !keys.Has(width)) width = "feed_forward_length";
  MESHSEAL_ASSIGN_OR_RETURN(moe.intermediate_size.value, keys.Unsigned(width, 1, kMaxSize, "the width of an expert"));
  moe.activation.kind.value = family.activation;
  if (family.activation == ActivationKind::kSwiGluOai) {
    // Fixed by the architecture: the files have no key for them.
    moe.activation.alpha = Spanned<double>{family.alpha, {}};
    moe.activation.limit = Spanned<double>{7.0, {}};
  }
  if (family.activation == ActivationKind::kSwiGluPreclamp) {
    MESHSEAL_ASSIGN_OR_RETURN(const double limit, keys.OneNumber("swiglu_clamp_exp", "the clamp of gate and up"));
    moe.activation.limit = Spanned<double>{limit, {}};
  }
  SharedExpertSpec shared;
  shared.gate.value = SharedGate::kNone;
  switch (family.shared) {
    case SharedRule::kNone:
      return absl::OkStatus();
    case SharedRule::kOne:
      shared.width.value = moe.intermediate_size.value;
      break;
    case SharedRule::kWidth: {
      MESHSEAL_ASSIGN_OR_RETURN(shared.width.value, keys.Unsigned("expert_shared_feed_forward_length", 1, kMaxSize,
                                                                  "the width of the shared expert"));
      shared.gate.value = SharedGate::kSigmoid;
      break;
    }
    case SharedRule::kCount: {
      MESHSEAL_ASSIGN_OR_RETURN(const uint64_t count,
                                keys.Unsigned("expert_shared_count", 0, 1024, "the number of shared experts"));
      if (count == 0) return absl::OkStatus();
      const std::optional<uint64_t> all = CheckedMul(count, moe.intermediate_size.value);
      if (!all.has_value() || *all > kMaxSize)
        return keys.Refuse("expert_shared_count", "the shared experts are too wide");
      shared.width.value = *all;
      break;
    }
  }
  if (family.activation == ActivationKind::kSwiGluPreclamp && keys.Has("swiglu_clamp_shexp")) {
    MESHSEAL_ASSIGN_OR_RETURN(const double limit,
                              keys.OneNumber("swiglu_clamp_shexp", "the clamp of the shared expert"));
    if (limit != moe.activation.limit->value) {
      ActivationSpec own = moe.activation;
      own.limit = Spanned<double>{limit, {}};
      shared.activation = own;
    }
  }
  moe.shared_expert = shared;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelFacts> ReadGgufConfig(absl::string_view place, const GgufMetadata& metadata,
                                          absl::string_view file_name) {
  MESHSEAL_ASSIGN_OR_RETURN(const std::optional<std::string> architecture, metadata.Text("general.architecture"));
  if (!architecture.has_value()) {
    return Refuse(Reason::kImport, absl::StrCat(place,
                                                ": key 'general.architecture': absent; it is needed as the name of "
                                                "the model's family"));
  }
  const Keys keys(place, metadata, *architecture);
  ModelFacts facts;
  MESHSEAL_ASSIGN_OR_RETURN(facts.family, ReadFamily(place, keys));
  const Family& family = *facts.family;
  MESHSEAL_ASSIGN_OR_RETURN(const std::optional<std::string> name, metadata.Text("general.name"));
  facts.manifest = EmptyImport(ModelNameOf(name.value_or(std::string(file_name))), family.name);
  Manifest& manifest = facts.manifest;
  manifest.source.value = WeightSource::kGguf;
  MoeSpec& moe = manifest.groups[0].moe;

  MESHSEAL_ASSIGN_OR_RETURN(moe.experts.value, keys.Unsigned("expert_count", 1, kMaxSize, "the number of experts"));
  MESHSEAL_ASSIGN_OR_RETURN(moe.experts_per_token.value,
                            keys.Unsigned("expert_used_count", 1, moe.experts.value, "the experts a token selects"));
  MESHSEAL_ASSIGN_OR_RETURN(manifest.hidden_size.value,
                            keys.Unsigned("embedding_length", 1, kMaxSize, "the width of a token's row"));
  MESHSEAL_ASSIGN_OR_RETURN(const uint64_t blocks,
                            keys.Unsigned("block_count", 1, kMostImportedLayers, "the number of layers"));
  uint64_t extra = 0;
  if (keys.Has("nextn_predict_layers")) {
    MESHSEAL_ASSIGN_OR_RETURN(extra,
                              keys.Unsigned("nextn_predict_layers", 0, blocks - 1, "the number of extra blocks"));
  }
  manifest.layers.value = blocks - extra;
  manifest.mtp_layers.value = extra;
  facts.mtp_stated = true;
  MESHSEAL_RETURN_IF_ERROR(ReadAttention(family, keys, manifest));
  MESHSEAL_RETURN_IF_ERROR(ReadMoeLayers(family, keys, facts));
  MESHSEAL_RETURN_IF_ERROR(ReadRouter(family, keys, manifest.layers.value, moe));
  MESHSEAL_RETURN_IF_ERROR(ReadExperts(family, keys, moe));
  return facts;
}

}  // namespace meshseal::compiler
