#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/manifest/read_manifest.h"
#include "compiler/manifest/typed_fields.h"
#include "compiler/yaml/scalar.h"

namespace meshseal::compiler {
namespace {

constexpr uint64_t kLargestSize = uint64_t{1} << 20;
constexpr uint64_t kMostLayers = uint64_t{1} << 16;
constexpr uint64_t kMostTokenIds = uint64_t{1} << 24;
constexpr uint64_t kMostMtpLayers = 64;
constexpr size_t kMostPatterns = 256;  // of ignored tensors
constexpr size_t kMostNameBytes = 256;
constexpr size_t kMostStars = 8;     // of a pattern; names and patterns are compared with each other
constexpr size_t kMostGroups = 256;  // far above any model; each is checked and budgeted
constexpr uint64_t kLargestSeed = (uint64_t{1} << 63) - 1;

using Layers = Spanned<std::vector<LayerRange>>;

std::optional<AttentionSpec> ReadAttention(TypedFields& model) {
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
  AttentionSpec attention;
  attention.heads = fields->Unsigned("heads", 1, kLargestSize);
  attention.kv_heads = fields->Unsigned("kv_heads", 1, kLargestSize);
  attention.head_dim = fields->Unsigned("head_dim", 1, kLargestSize);
  fields->Finish();
  return attention;
}

// A list of layers and ranges.
Layers ReadLayers(const YamlNode& node, absl::string_view name, Diagnostics& diagnostics) {
  Layers layers{{}, node.span()};
  if (auto read = ReadRanges(node, name, kMostLayers, diagnostics)) {
    for (const Spanned<IndexRange>& range : *read) {
      layers.value.push_back({static_cast<uint32_t>(range.value.first), static_cast<uint32_t>(range.value.last)});
    }
  }
  return layers;
}

// The row that each layer stands in; a layer that stands twice is reported.
using RowOfLayer = std::map<uint32_t, size_t>;

RowOfLayer RowsOf(const std::vector<Layers>& rows, Diagnostics& diagnostics) {
  RowOfLayer row_of;
  for (size_t i = 0; i < rows.size(); ++i) {
    for (const LayerRange& range : rows[i].value) {
      for (uint32_t layer = range.first; layer < range.last; ++layer) {
        const auto [other, inserted] = row_of.emplace(layer, i);
        if (inserted) continue;
        diagnostics.Error("layers-told-once", rows[i].span, absl::StrCat("layer ", layer, " stands twice"))
            .notes.push_back({rows[other->second].span, "the first time"});
        return row_of;
      }
    }
  }
  return row_of;
}

Layers ReadMoeLayers(TypedFields& moe, uint64_t layers) {
  const YamlNode* node = moe.Node("layers");
  if (node == nullptr) return {};
  if (node->scalar() != nullptr && node->scalar()->text == "all") {
    return {{LayerRange{0, static_cast<uint32_t>(layers)}}, node->span()};
  }
  return ReadLayers(*node, "moe.layers", moe.diagnostics());
}

// Expert counts: one for all layers, or a default and those of some layers.
struct ExpertCounts {
  Spanned<uint64_t> all;
  std::vector<Layers> layers;
  std::vector<Spanned<uint64_t>> counts;  // of the same row of `layers`
};

ExpertCounts ReadExperts(TypedFields& moe) {
  ExpertCounts counts;
  const YamlNode* node = moe.Node("experts");
  if (node == nullptr || node->map() == nullptr) {
    if (node != nullptr) counts.all = moe.Unsigned("experts", 1, kLargestSize);
    return counts;
  }
  TypedFields fields = moe.In(*node, "experts");
  counts.all = fields.Unsigned("default", 1, kLargestSize);
  for (const YamlEntry& entry : *node->map()) {
    if (entry.key == "default") continue;
    const YamlNode::List key{YamlNode(entry.key_span, YamlScalar{entry.key, true})};
    counts.layers.push_back(ReadLayers(YamlNode(entry.key_span, key), "moe.experts", moe.diagnostics()));
    counts.counts.push_back(fields.Unsigned(entry.key, 1, kLargestSize));
  }
  fields.Finish();
  return counts;
}

std::optional<RouterGroupsSpec> ReadGroups(TypedFields& router) {
  const YamlNode* node = router.NodeOrNone("groups");
  if (node == nullptr) return std::nullopt;
  TypedFields fields = router.In(*node, "groups");
  RouterGroupsSpec groups;
  groups.span = node->span();
  groups.count = fields.Unsigned("count", 1, kLargestSize);
  groups.keep = fields.Unsigned("keep", 1, kLargestSize);
  groups.score = fields.Term<GroupScore>("score");
  fields.Finish();
  return groups;
}

// One size, spread over the layers, or a map that says what the first and the last stage have besides.
void ReadOtherWeights(TypedFields& model, OtherWeightsSpec& other) {
  const YamlNode* node = model.Node("other_weights");
  if (node == nullptr) return;
  if (node->map() == nullptr) {
    other.layers = model.Bytes("other_weights");
    return;
  }
  TypedFields fields = model.In(*node, "other_weights");
  other.first = fields.Bytes("first");
  other.layers = fields.Bytes("layers");
  other.last = fields.Bytes("last");
  fields.Finish();
}

RouterSpec ReadRouter(TypedFields& moe) {
  RouterSpec router;
  std::optional<TypedFields> fields = moe.Map("router");
  if (!fields.has_value()) return router;
  router.span = fields->span();
  Choice<Scoring> scoring = fields->TermOrMap<Scoring>("scoring", {Scoring::kSparsemixer});
  router.scoring = scoring.word;
  if (scoring.parameters.has_value()) {
    router.epsilon = scoring.parameters->Number("eps");
    scoring.parameters->Finish();
  }
  router.order = fields->Term<RouteOrder>("order");
  Choice<Renormalize> renormalize =
      fields->TermOrMap<Renormalize>("renormalize", {Renormalize::kSumPlus, Renormalize::kSumFloor});
  router.renormalize = renormalize.word;
  if (renormalize.parameters.has_value()) {
    router.guard = renormalize.parameters->Number("guard");
    renormalize.parameters->Finish();
  }
  router.scale = fields->Number("scale");
  router.logit_bias = fields->NoneOrTensor("logit_bias");
  router.selection_bias = fields->NoneOrTensor("selection_bias");
  router.groups = ReadGroups(*fields);
  router.weight_applied = fields->Term<WeightPoint>("weight_applied");
  router.input_dtype = fields->Term<Basis>("input_dtype", {Basis::kF32, Basis::kBf16});
  if (const YamlNode* table = fields->NodeOrNone("token_table")) {
    TypedFields table_fields = fields->In(*table, "token_table");
    if (const YamlNode* layers = table_fields.Node("layers")) {
      router.token_table_layers = ReadLayers(*layers, "moe.router.token_table.layers", fields->diagnostics());
    }
    router.vocabulary = table_fields.Unsigned("vocabulary", 1, kMostTokenIds);
    table_fields.Finish();
  }
  fields->Finish();
  return router;
}

ActivationSpec ReadActivation(TypedFields fields) {
  ActivationSpec activation;
  activation.kind = fields.Term<ActivationKind>("kind");
  if (fields.OptionalNode("alpha") != nullptr) activation.alpha = fields.Number("alpha");
  if (fields.OptionalNode("limit") != nullptr) activation.limit = fields.Number("limit");
  fields.Finish();
  return activation;
}

std::optional<SharedExpertSpec> ReadSharedExpert(TypedFields& moe) {
  const YamlNode* node = moe.NodeOrNone("shared_expert");
  if (node == nullptr) return std::nullopt;
  TypedFields fields = moe.In(*node, "shared_expert");
  SharedExpertSpec shared;
  shared.span = node->span();
  shared.width = fields.Unsigned("width", 1, kLargestSize);
  shared.gate = fields.Term<SharedGate>("gate");
  if (const YamlNode* activation = fields.Node("activation")) {
    const bool same = activation->scalar() != nullptr && activation->scalar()->text == "same";
    if (!same) shared.activation = ReadActivation(fields.In(*activation, "activation"));
  }
  fields.Finish();
  return shared;
}

Spanned<DType> ReadDType(TypedFields& fields, bool side) {
  const YamlNode* node = fields.Node("dtype");
  if (node == nullptr) return {};
  std::vector<meshseal::Term> words;
  for (const DTypeRow& row : DTypeRows()) {
    const bool index = row.dtype == DType::kI32 || row.dtype == DType::kI64;
    const bool scale = row.dtype == DType::kF8E8M0 || row.dtype == DType::kU8 || row.dtype == DType::kF32 ||
                       row.dtype == DType::kBf16 || row.dtype == DType::kF8E4M3;
    if (side ? scale : row.weight || index) words.push_back({static_cast<uint8_t>(row.dtype), row.name});
  }
  return {static_cast<DType>(fields.TermIn(*node, "dtype", words)), node->span()};
}

std::optional<Spanned<ScaleBlock>> ReadScaleBlock(TypedFields& fields) {
  if (fields.OptionalNodeOrNone("block") == nullptr) return std::nullopt;
  const Spanned<std::vector<uint64_t>> sides = fields.Unsigneds("block", 1, kLargestSize);
  if (sides.value.size() == 2) return Spanned<ScaleBlock>{{sides.value[0], sides.value[1]}, sides.span};
  if (!sides.value.empty()) {
    fields.diagnostics().Error("wrong-kind", sides.span,
                               absl::StrCat(fields.name(), ".block: expected [rows, columns] of a block"));
  }
  return std::nullopt;
}

// A tensor's name or a pattern of names, within the limits.
Spanned<std::string> WithinLimits(Spanned<std::string> name, absl::string_view field, Diagnostics& diagnostics) {
  const auto stars = static_cast<size_t>(std::count(name.value.begin(), name.value.end(), '*'));
  if (name.value.size() > kMostNameBytes) {
    diagnostics.Error(
        "out-of-range", name.span,
        absl::StrCat(field, ": a name of ", name.value.size(), " bytes, expected at most ", kMostNameBytes));
  } else if (stars > kMostStars) {
    diagnostics.Error("out-of-range", name.span,
                      absl::StrCat(field, ": a pattern with ", stars, " stars, expected at most ", kMostStars));
  }
  return name;
}

std::optional<SideTensorSpec> ReadSideTensor(TypedFields& tensor, absl::string_view key) {
  const YamlNode* node = tensor.OptionalNodeOrNone(key);
  if (node == nullptr) return std::nullopt;
  TypedFields fields = tensor.In(*node, key);
  SideTensorSpec side;
  side.span = node->span();
  side.name = WithinLimits(fields.Text("name"), fields.name(), fields.diagnostics());
  side.dtype = ReadDType(fields, true);
  side.block = ReadScaleBlock(fields);
  side.applies = fields.Term<ScaleApplies>("applies");
  if (fields.OptionalNodeOrNone("of") != nullptr) side.of = fields.Term<ScaleOf>("of");
  fields.Finish();
  return side;
}

TensorSpec ReadTensor(const YamlEntry& entry, TypedFields& weights) {
  TensorSpec tensor;
  const YamlNode role(entry.key_span, YamlScalar{entry.key, true});
  tensor.role = {static_cast<TensorRole>(weights.TermIn(role, "tensors", Terms<TensorRole>())), entry.key_span};
  TypedFields fields = weights.In(entry.value, absl::StrCat("tensors.", entry.key));
  tensor.name = WithinLimits(fields.Text("name"), fields.name(), fields.diagnostics());
  tensor.dtype = ReadDType(fields, false);
  if (const YamlNode::List* axes = fields.Rows("shape", "a list of axes, such as [hidden, experts]", true)) {
    tensor.shape.span = fields.Node("shape")->span();
    for (const YamlNode& axis : *axes) {
      tensor.shape.value.push_back(static_cast<ShapeAxis>(fields.TermIn(axis, "shape", Terms<ShapeAxis>())));
    }
  }
  if (fields.OptionalNodeOrNone("layout") != nullptr) tensor.layout = fields.Term<GateUpLayout>("layout");
  if (const YamlNode* rotation = fields.OptionalNodeOrNone("rotation")) {
    TypedFields rotation_fields = fields.In(*rotation, "rotation");
    tensor.rotation = rotation_fields.Unsigned("block", 2, kLargestSize);
    rotation_fields.Finish();
  }
  tensor.scale = ReadSideTensor(fields, "scale");
  tensor.scale_2 = ReadSideTensor(fields, "scale_2");
  tensor.input_scale = ReadSideTensor(fields, "input_scale");
  fields.Finish();
  return tensor;
}

// The fields of `moe` that can differ by layer, and the tensors.
// `weights` names the tensors in messages; null where there are none.
MoeSpec ReadMoeSpec(TypedFields& moe, const YamlNode::Map& tensors, TypedFields* weights) {
  MoeSpec spec;
  spec.experts_per_token = moe.Unsigned("experts_per_token", 1, kLargestSize);
  spec.intermediate_size = moe.Unsigned("intermediate_size", 1, kLargestSize);
  spec.router = ReadRouter(moe);
  if (std::optional<TypedFields> fields = moe.Map("activation")) spec.activation = ReadActivation(*fields);
  spec.gated = moe.Flag("gated");
  spec.shared_expert = ReadSharedExpert(moe);
  spec.residual = moe.Term<Residual>("residual");
  for (const YamlEntry& entry : tensors) spec.tensors.push_back(ReadTensor(entry, *weights));
  return spec;
}

// What a document says of some layers only, and the layers' own spec, read as if it stood in the document alone.
struct Override {
  Layers layers;
  MoeSpec spec;
};

// `base` with the keys of `patch` in place of its own; maps inside are merged `depth` levels deep, and replaced below.
YamlNode::Map Merged(const YamlNode::Map& base, const YamlNode::Map& patch, int depth) {
  YamlNode::Map merged = base;
  for (const YamlEntry& entry : patch) {
    YamlEntry* found = nullptr;
    for (YamlEntry& own : merged) {
      if (own.key == entry.key) found = &own;
    }
    if (found == nullptr) {
      merged.push_back(entry);
    } else if (depth > 0 && found->value.map() != nullptr && entry.value.map() != nullptr) {
      found->value = YamlNode(entry.value.span(), Merged(*found->value.map(), *entry.value.map(), depth - 1));
      found->key_span = entry.key_span;
    } else {
      *found = entry;
    }
  }
  return merged;
}

std::vector<Override> ReadOverrides(const YamlNode& overrides, const YamlNode& moe, const YamlNode::Map& tensors,
                                    Diagnostics& diagnostics) {
  std::vector<Override> read;
  if (overrides.list() == nullptr) {
    diagnostics.Error("wrong-kind", overrides.span(), "overrides: expected a list of rows {layers, ...}");
    return read;
  }
  for (const YamlNode& item : *overrides.list()) {
    TypedFields row(item, "overrides", diagnostics);
    const YamlNode* layers = row.Node("layers");
    YamlNode::Map replaced;  // maps that stand as they are written
    YamlNode::Map by_field;  // maps that are merged field by field
    for (const char* key : {"experts_per_token", "intermediate_size", "activation", "gated", "shared_expert"}) {
      if (const YamlNode* value = row.OptionalNode(key)) replaced.push_back({key, row.SpanOf(key), *value});
    }
    if (const YamlNode* router = row.OptionalNode("router")) {
      // What is no map is told here, and not again as part of the whole.
      TypedFields router_fields = row.In(*router, "router");
      for (const char* key : {"scoring", "order", "renormalize", "scale", "logit_bias", "selection_bias", "groups",
                              "weight_applied", "input_dtype"}) {
        router_fields.OptionalNode(key);
      }
      router_fields.Finish();
      if (router->map() != nullptr) by_field.push_back({"router", row.SpanOf("router"), *router});
    }
    YamlNode::Map own_tensors = tensors;
    if (row.OptionalNode("tensors") != nullptr) {
      if (const YamlNode::Map* rows = row.Entries("tensors", "a map from roles to fields")) {
        own_tensors = Merged(tensors, *rows, 1);
      }
    }
    row.Finish();
    if (layers == nullptr) continue;
    Override one;
    one.layers = ReadLayers(*layers, "overrides.layers", diagnostics);
    const bool no_layer = layers->list() != nullptr && layers->list()->empty();
    if (no_layer || (item.map()->size() == 1)) {
      diagnostics.Error("wrong-kind", item.span(), "overrides: a row names layers and at least one field that differs");
    }
    const YamlNode merged(moe.span(), Merged(Merged(*moe.map(), replaced, 0), by_field, 1));
    TypedFields merged_moe(merged, "moe", diagnostics);
    TypedFields merged_weights(item, "weights", diagnostics);
    one.spec = ReadMoeSpec(merged_moe, own_tensors, &merged_weights);
    read.push_back(std::move(one));
  }
  return read;
}

// Layers for which the same is written make one group, in the order of their first layers.
class LayerGrouping {
 public:
  LayerGrouping(const MoeSpec& base, const std::vector<Override>& overrides, const ExpertCounts& experts)
      : base_(base), overrides_(overrides), experts_(experts) {}

  void Add(uint32_t layer, std::optional<size_t> override_row, std::optional<size_t> experts_row, bool token_table) {
    const Spanned<uint64_t>& experts = experts_row.has_value() ? experts_.counts[*experts_row] : experts_.all;
    const auto key = std::make_tuple(override_row.has_value() ? *override_row + 1 : 0, experts.value, token_table);
    const auto [at, inserted] = group_of_.emplace(key, groups_.size());
    if (inserted) {
      LayerGroup group;
      group.moe = override_row.has_value() ? overrides_[*override_row].spec : base_;
      group.moe.experts = experts;
      group.moe.router.token_table_layers = token_table ? base_.router.token_table_layers : Layers{};
      if (!token_table) group.moe.router.vocabulary = {};
      groups_.push_back(std::move(group));
    }
    std::vector<LayerRange>& layers = groups_[at->second].layers;
    if (!layers.empty() && layers.back().last == layer) {
      ++layers.back().last;
    } else {
      layers.push_back({layer, layer + 1});
    }
  }

  std::vector<LayerGroup> Finish() && {
    if (groups_.empty()) {  // `layers-in-model` says that there is no layer
      groups_.push_back({{}, base_});
      groups_.back().moe.experts = experts_.all;
    }
    return std::move(groups_);
  }

 private:
  const MoeSpec& base_;
  const std::vector<Override>& overrides_;
  const ExpertCounts& experts_;
  std::vector<LayerGroup> groups_;
  std::map<std::tuple<size_t, uint64_t, bool>, size_t> group_of_;
};

std::optional<size_t> Row(const RowOfLayer& rows, uint32_t layer) {
  const auto found = rows.find(layer);
  return found == rows.end() ? std::nullopt : std::optional<size_t>(found->second);
}

void ReadMoe(const YamlNode& node, const YamlNode::Map& tensors, TypedFields* weights, const YamlNode* overrides,
             Manifest& model, Diagnostics& diagnostics) {
  const size_t before = diagnostics.size();
  TypedFields moe(node, "moe", diagnostics);
  model.moe_layers = ReadMoeLayers(moe, model.layers.value);
  const ExpertCounts experts = ReadExperts(moe);
  const MoeSpec base = ReadMoeSpec(moe, tensors, weights);
  moe.Finish();
  const RowOfLayer counted = RowsOf(experts.layers, diagnostics);
  const RowOfLayer tabled = RowsOf({base.router.token_table_layers}, diagnostics);
  // An override is read over the whole: errors of the base would be told again.
  if (diagnostics.size() != before) return;
  std::vector<Override> rows;
  if (overrides != nullptr) rows = ReadOverrides(*overrides, node, tensors, diagnostics);
  model.layer_lists = experts.layers;
  std::vector<Layers> overridden;
  for (const Override& row : rows) overridden.push_back(row.layers);
  const RowOfLayer overridden_rows = RowsOf(overridden, diagnostics);
  model.layer_lists.insert(model.layer_lists.end(), overridden.begin(), overridden.end());
  model.layer_lists.push_back(base.router.token_table_layers);
  if (diagnostics.size() != before) return;
  LayerGrouping grouping(base, rows, experts);
  for (const LayerRange& range : model.moe_layers.value) {
    for (uint32_t layer = range.first; layer < range.last; ++layer) {
      grouping.Add(layer, Row(overridden_rows, layer), Row(counted, layer), Row(tabled, layer).has_value());
    }
  }
  model.groups = std::move(grouping).Finish();
  if (model.groups.size() > kMostGroups) {
    diagnostics.Error(
        "out-of-range", model.moe_layers.span,
        absl::StrCat("moe.layers: ", model.groups.size(), " kinds of layers, expected at most ", kMostGroups));
  }
}

void ReadCollectives(TypedFields& document, Manifest& model) {
  model.collectives_span = document.Node("collectives") != nullptr ? document.Node("collectives")->span() : Span{};
  const YamlNode::List* rows = document.Rows("collectives", "a list of rows {after, op, over}", false);
  if (rows == nullptr) return;
  for (const YamlNode& item : *rows) {
    TypedFields row = document.In(item, "collectives");
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
    ReadOtherWeights(*fields, model.other_weights);
    if (fields->OptionalNode("mtp_layers") != nullptr) {
      model.mtp_layers = fields->Unsigned("mtp_layers", 0, kMostMtpLayers);
    }
    fields->Finish();
  }
  std::optional<TypedFields> weights = document.Map("weights");
  const YamlNode::Map* tensors = nullptr;
  if (weights.has_value()) {
    Choice<WeightSource> source = weights->TermOrMap<WeightSource>("source", {WeightSource::kSynthetic});
    model.source = source.word;
    if (source.parameters.has_value()) {
      model.seed = source.parameters->Unsigned("seed", 0, kLargestSeed).value;
      source.parameters->Finish();
    }
    tensors = weights->Entries("tensors", "a map from roles to tensors");
    model.tensors_span = weights->SpanOf("tensors");
    for (Spanned<std::string>& pattern : weights->Texts("ignored")) {
      model.ignored.push_back(WithinLimits(std::move(pattern), "weights.ignored", diagnostics));
    }
    if (model.ignored.size() > kMostPatterns) {
      diagnostics.Error(
          "out-of-range", weights->SpanOf("ignored"),
          absl::StrCat("weights.ignored: ", model.ignored.size(), " patterns, expected at most ", kMostPatterns));
    }
    weights->Finish();
  }
  const YamlNode* overrides = document.OptionalNode("overrides");
  if (const YamlNode* moe = document.Node("moe")) {
    const YamlNode::Map none;
    ReadMoe(*moe, tensors == nullptr ? none : *tensors, weights.has_value() ? &*weights : nullptr, overrides, model,
            diagnostics);
  }
  ReadCollectives(document, model);
  document.Finish();
  if (diagnostics.size() != before) return std::nullopt;
  return model;
}

}  // namespace meshseal::compiler
