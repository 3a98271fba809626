#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/manifest/read_manifest.h"
#include "compiler/manifest/typed_fields.h"
#include "compiler/yaml/scalar.h"

namespace meshseal::compiler {
namespace {

constexpr uint64_t kLargestSize = uint64_t{1} << 20;
constexpr uint64_t kMostLayers = uint64_t{1} << 16;

std::optional<Attention> ReadAttention(TypedFields& model) {
  std::optional<TypedFields> fields = model.Map("attention");
  if (!fields.has_value()) return std::nullopt;
  if (const YamlNode* kind = fields->OptionalNode("kind")) {
    const auto word = ReadText(*kind, "model.attention.kind", fields->diagnostics());
    if (word.has_value() && *word != "other") {
      fields->diagnostics().Error(
          "unknown-value", kind->span(),
          absl::StrCat("model.attention.kind: unknown value '", *word, "', the one known is 'other'"));
    }
    fields->Finish();
    return std::nullopt;
  }
  Attention attention;
  attention.heads = fields->Unsigned("heads", 1, kLargestSize);
  attention.kv_heads = fields->Unsigned("kv_heads", 1, kLargestSize);
  attention.head_dim = fields->Unsigned("head_dim", 1, kLargestSize);
  fields->Finish();
  return attention;
}

// `all`, or a list of layers and ranges.
Spanned<std::vector<LayerRange>> ReadMoeLayers(TypedFields& moe, uint64_t layers) {
  const YamlNode* node = moe.Node("layers");
  if (node == nullptr) return {};
  if (node->scalar() != nullptr && node->scalar()->text == "all") {
    return {{LayerRange{0, static_cast<uint32_t>(layers)}}, node->span()};
  }
  Spanned<std::vector<LayerRange>> ranges{{}, node->span()};
  if (auto read = ReadRanges(*node, "moe.layers", kMostLayers, moe.diagnostics())) {
    for (const Spanned<IndexRange>& range : *read) {
      ranges.value.push_back({static_cast<uint32_t>(range.value.first), static_cast<uint32_t>(range.value.last)});
    }
  }
  return ranges;
}

RouterSpec ReadRouter(TypedFields& moe) {
  RouterSpec router;
  std::optional<TypedFields> fields = moe.Map("router");
  if (!fields.has_value()) return router;
  router.span = fields->span();
  router.scoring = fields->Term<Scoring>("scoring", {"sigmoid", "sqrt_softplus", "sparsemixer", "precomputed"});
  router.order = fields->Term<RouteOrder>("order");
  router.renormalize = fields->Term<Renormalize>("renormalize", {"sum_plus", "sum_floor"});
  router.scale = fields->Number("scale");
  fields->OnlyNone("logit_bias");
  fields->OnlyNone("selection_bias");
  fields->OnlyNone("groups");
  router.weight_applied = fields->Term<WeightPoint>("weight_applied", {"activation", "input"});
  router.input_dtype = fields->Term<Basis>("input_dtype");
  fields->OnlyNone("token_table");
  fields->Finish();
  return router;
}

Spanned<ActivationKind> ReadActivation(TypedFields& moe) {
  std::optional<TypedFields> fields = moe.Map("activation");
  if (!fields.has_value()) return {};
  const auto kind = fields->Term<ActivationKind>("kind", {"geglu", "relu2", "swiglu_oai", "swiglu_preclamp"});
  fields->OptionalNode("alpha");  // of kinds that are not built; the kind was reported
  fields->OptionalNode("limit");
  fields->Finish();
  return kind;
}

void ReadMoe(const YamlNode& node, Manifest& model, Diagnostics& diagnostics) {
  TypedFields moe(node, "moe", diagnostics);
  model.moe_layers = ReadMoeLayers(moe, model.layers.value);
  if (const YamlNode* experts = moe.OptionalNode("experts"); experts != nullptr && experts->map() != nullptr) {
    ReportNotBuilt(experts->span(), "moe.experts per layer", diagnostics);
  } else {
    model.experts = moe.Unsigned("experts", 1, kLargestSize);
  }
  model.experts_per_token = moe.Unsigned("experts_per_token", 1, kLargestSize);
  model.intermediate_size = moe.Unsigned("intermediate_size", 1, kLargestSize);
  model.router = ReadRouter(moe);
  model.activation = ReadActivation(moe);
  if (const YamlNode* gated = moe.Node("gated")) {
    if (const auto flag = ReadBool(*gated, "moe.gated", diagnostics); flag.has_value() && !*flag) {
      ReportNotBuilt(gated->span(), "moe.gated: false", diagnostics);
    }
  }
  moe.OnlyNone("shared_expert");
  model.residual = moe.Term<Residual>("residual");
  moe.Finish();
}

std::vector<TensorSpec> ReadTensors(TypedFields& weights) {
  std::vector<TensorSpec> tensors;
  const YamlNode* node = weights.Node("tensors");
  if (node == nullptr) return tensors;
  if (node->map() == nullptr) {
    weights.diagnostics().Error("wrong-kind", node->span(), "weights.tensors: expected a map from roles to tensors");
    return tensors;
  }
  for (const YamlEntry& entry : *node->map()) {
    TensorSpec tensor;
    const YamlNode role(entry.key_span, YamlScalar{entry.key, true});
    tensor.role = {
        static_cast<TensorRole>(weights.TermIn(
            role, "tensors", Terms<TensorRole>(),
            {"router_bias", "selection_bias", "token_table", "gate_up", "gate_bias", "up_bias", "gate_up_bias",
             "down_bias", "shared_gate", "shared_up", "shared_gate_up", "shared_down", "shared_expert_gate"})),
        entry.key_span};
    TypedFields fields(entry.value, absl::StrCat("weights.tensors.", entry.key), weights.diagnostics());
    tensor.name = fields.Text("name");
    if (const YamlNode* dtype = fields.Node("dtype")) {
      tensor.dtype.span = dtype->span();
      std::vector<meshseal::Term> words;
      for (const DTypeRow& row : DTypeRows()) {
        if (row.weight) words.push_back({static_cast<uint8_t>(row.dtype), row.name});
      }
      tensor.dtype.value =
          static_cast<DType>(fields.TermIn(*dtype, "dtype", words,
                                           {"f8_e4m3", "mxfp4", "nvfp4", "q8_0", "q4_0", "q4_k", "q5_k", "q6_k", "q2_k",
                                            "q3_k", "iq2_xxs", "iq4_nl", "iq4_xs"}));
    }
    if (const YamlNode* shape = fields.Node("shape")) {
      tensor.shape.span = shape->span();
      if (shape->list() == nullptr) {
        fields.diagnostics().Error(
            "wrong-kind", shape->span(),
            absl::StrCat(fields.name(), ".shape: expected a list of axes, such as [hidden, experts]"));
      } else {
        for (const YamlNode& axis : *shape->list()) {
          tensor.shape.value.push_back(
              static_cast<ShapeAxis>(fields.TermIn(axis, "shape", Terms<ShapeAxis>(), {"2*intermediate"})));
        }
      }
    }
    for (const char* side : {"scale", "scale_2", "input_scale", "layout", "rotation"}) fields.NotBuilt(side);
    fields.Finish();
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

void ReadWeights(const YamlNode& node, Manifest& model, Diagnostics& diagnostics) {
  TypedFields weights(node, "weights", diagnostics);
  model.source = weights.Term<WeightSource>("source", {"gguf", "synthetic"});
  model.tensors = ReadTensors(weights);
  model.tensors_span = weights.SpanOf("tensors");
  model.ignored = weights.Texts("ignored");
  weights.Finish();
}

void ReadCollectives(const YamlNode& node, Manifest& model, Diagnostics& diagnostics) {
  model.collectives_span = node.span();
  if (node.list() == nullptr) {
    diagnostics.Error("wrong-kind", node.span(), "collectives: expected a list of rows {after, op, over}");
    return;
  }
  for (const YamlNode& item : *node.list()) {
    TypedFields row(item, "collectives", diagnostics);
    CollectiveSpec spec;
    spec.span = item.span();
    spec.after = row.Text("after");
    spec.op = row.Text("op");
    spec.over = row.Text("over");
    row.Finish();
    model.collectives.push_back(std::move(spec));
  }
}

}  // namespace

std::optional<Manifest> ReadManifest(const SourceFile& file, const YamlNode& root, Diagnostics& diagnostics) {
  const size_t before = diagnostics.size();
  Manifest model;
  model.file = &file;
  TypedFields document(root, "", diagnostics);
  document.Node("meshseal");
  if (std::optional<TypedFields> fields = document.Map("model")) {
    model.name = fields->Text("name");
    model.family = fields->Text("family");
    model.hidden_size = fields->Unsigned("hidden_size", 1, kLargestSize);
    model.layers = fields->Unsigned("layers", 1, kMostLayers);
    model.attention = ReadAttention(*fields);
    model.other_weights = fields->Bytes("other_weights");
    fields->NotBuilt("mtp_layers");
    fields->NotBuilt("overrides");
    fields->Finish();
  }
  if (const YamlNode* moe = document.Node("moe")) ReadMoe(*moe, model, diagnostics);
  if (const YamlNode* weights = document.Node("weights")) ReadWeights(*weights, model, diagnostics);
  if (const YamlNode* collectives = document.Node("collectives")) ReadCollectives(*collectives, model, diagnostics);
  document.NotBuilt("overrides");
  document.Finish();
  if (diagnostics.size() != before) return std::nullopt;
  return model;
}

}  // namespace meshseal::compiler
