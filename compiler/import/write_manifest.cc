#include "compiler/import/write_manifest.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "schema/format_text.h"
#include "schema/utf8.h"

namespace meshseal::compiler {
namespace {

// Fields in the order they are written; the text of a value.
using Fields = std::vector<std::pair<std::string, std::string>>;

bool IsPlainWord(absl::string_view text) {
  constexpr absl::string_view kReserved[] = {"null", "true", "false", "yes", "no", "on", "off", "y", "n", "none"};
  if (text.empty() || !absl::ascii_islower(static_cast<unsigned char>(text[0]))) return false;
  if (std::find(std::begin(kReserved), std::end(kReserved), text) != std::end(kReserved)) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return absl::ascii_islower(byte) || absl::ascii_isdigit(byte) || c == '.' || c == '-' || c == '_';
  });
}

// A double-quoted scalar; what is not a plain visible character is escaped.
std::string DoubleQuoted(absl::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const std::optional<CodePoint> point = FirstCodePoint(text);
    const size_t length = point.has_value() ? point->length : 1;
    const char32_t value = point.has_value() ? point->value : 0xFFFD;
    if (value == '"' || value == '\\') {
      quoted += '\\';
      quoted += text[0];
    } else if (value < 0x20 || (value >= 0x7F && value < 0xA0) || value == 0x2028 || value == 0x2029 ||
               value == 0xFEFF || !point.has_value()) {
      AppendFormat(&quoted, "\\u%04X", static_cast<uint32_t>(value));
    } else {
      absl::StrAppend(&quoted, text.substr(0, length));
    }
    text.remove_prefix(length);
  }
  return quoted + "\"";
}

std::string Word(absl::string_view text) { return IsPlainWord(text) ? std::string(text) : DoubleQuoted(text); }

// The shortest decimal that reads back as the same double, with a point: 2.5, 1.0, 1.0e-20.
std::string NumberText(double value) {
  char buffer[64];
  const auto [end, error] = std::to_chars(std::begin(buffer), std::end(buffer), value);
  std::string text(buffer, error == std::errc() ? end : buffer);
  if (text.find('.') == std::string::npos) text.insert(std::min(text.find('e'), text.size()), ".0");
  return text;
}

// In the largest unit of 1024 that it is a whole number of.
std::string SizeText(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return absl::StrCat(bytes, kUnits[unit]);
}

std::string RangeText(const LayerRange& range) {
  return range.last == range.first + 1 ? absl::StrCat(range.first) : absl::StrCat(range.first, "-", range.last - 1);
}

std::string RangesText(const std::vector<LayerRange>& ranges) {
  return absl::StrCat(
      "[", absl::StrJoin(ranges, ", ", [](std::string* out, const LayerRange& range) { *out += RangeText(range); }),
      "]");
}

std::string FlowMap(const Fields& fields) {
  return absl::StrCat(
      "{",
      absl::StrJoin(fields, ", ",
                    [](std::string* out, const auto& field) { absl::StrAppend(out, field.first, ": ", field.second); }),
      "}");
}

Fields RouterFields(const RouterSpec& router) {
  const std::string guard = absl::StrCat(": {guard: ", NumberText(router.guard.value), "}}");
  const Renormalize renormalize = router.renormalize.value;
  const bool guarded = renormalize == Renormalize::kSumPlus || renormalize == Renormalize::kSumFloor;
  const auto tensor = [](const Spanned<bool>& present) { return std::string(present.value ? "tensor" : "none"); };
  std::string groups = "none";
  if (router.groups.has_value()) {
    groups = FlowMap({{"count", absl::StrCat(router.groups->count.value)},
                      {"keep", absl::StrCat(router.groups->keep.value)},
                      {"score", WordOf(router.groups->score.value)}});
  }
  return {
      {"scoring", router.scoring.value == Scoring::kSparsemixer
                      ? absl::StrCat("{sparsemixer: {eps: ", NumberText(router.epsilon.value), "}}")
                      : WordOf(router.scoring.value)},
      {"order", WordOf(router.order.value)},
      {"renormalize", guarded ? absl::StrCat("{", WordOf(renormalize), guard) : WordOf(renormalize)},
      {"scale", NumberText(router.scale.value)},
      {"logit_bias", tensor(router.logit_bias)},
      {"selection_bias", tensor(router.selection_bias)},
      {"groups", groups},
      {"weight_applied", WordOf(router.weight_applied.value)},
      {"input_dtype", WordOf(router.input_dtype.value)},
  };
}

std::string ActivationText(const ActivationSpec& activation) {
  Fields fields = {{"kind", WordOf(activation.kind.value)}};
  if (activation.alpha.has_value()) fields.emplace_back("alpha", NumberText(activation.alpha->value));
  if (activation.limit.has_value()) fields.emplace_back("limit", NumberText(activation.limit->value));
  return FlowMap(fields);
}

std::string SharedExpertText(const std::optional<SharedExpertSpec>& shared) {
  if (!shared.has_value()) return "none";
  return FlowMap({{"width", absl::StrCat(shared->width.value)},
                  {"gate", WordOf(shared->gate.value)},
                  {"activation", shared->activation.has_value() ? ActivationText(*shared->activation) : "same"}});
}

std::string SideText(const SideTensorSpec& side) {
  Fields fields = {{"name", DoubleQuoted(side.name.value)}, {"dtype", std::string(DTypeName(side.dtype.value))}};
  if (side.block.has_value()) {
    fields.emplace_back("block", absl::StrCat("[", side.block->value.rows, ", ", side.block->value.columns, "]"));
  }
  fields.emplace_back("applies", WordOf(side.applies.value));
  if (side.of.has_value()) fields.emplace_back("of", WordOf(side.of->value));
  return FlowMap(fields);
}

Fields TensorFields(const TensorSpec& tensor) {
  Fields fields = {{"name", DoubleQuoted(tensor.name.value)}, {"dtype", std::string(DTypeName(tensor.dtype.value))}};
  fields.emplace_back(
      "shape",
      absl::StrCat(
          "[", absl::StrJoin(tensor.shape.value, ", ", [](std::string* out, ShapeAxis axis) { *out += WordOf(axis); }),
          "]"));
  if (tensor.layout.has_value()) fields.emplace_back("layout", WordOf(tensor.layout->value));
  if (tensor.rotation.has_value())
    fields.emplace_back("rotation", absl::StrCat("{block: ", tensor.rotation->value, "}"));
  if (tensor.scale.has_value()) fields.emplace_back("scale", SideText(*tensor.scale));
  if (tensor.scale_2.has_value()) fields.emplace_back("scale_2", SideText(*tensor.scale_2));
  if (tensor.input_scale.has_value()) fields.emplace_back("input_scale", SideText(*tensor.input_scale));
  return fields;
}

// The fields of `own` that `base` lacks or has otherwise, then those that `own` lacks, as none.
Fields Difference(const Fields& base, const Fields& own) {
  Fields different;
  const auto find = [](const Fields& fields, const std::string& key) {
    return std::find_if(fields.begin(), fields.end(), [&](const auto& field) { return field.first == key; });
  };
  for (const auto& [key, text] : own) {
    const auto found = find(base, key);
    if (found == base.end() || found->second != text) different.emplace_back(key, text);
  }
  for (const auto& [key, text] : base) {
    if (find(own, key) == own.end()) different.emplace_back(key, "none");
  }
  return different;
}

// The fields of `moe` beside the router that an override may replace.
Fields MoeFields(const MoeSpec& moe) {
  return {{"experts_per_token", absl::StrCat(moe.experts_per_token.value)},
          {"intermediate_size", absl::StrCat(moe.intermediate_size.value)},
          {"activation", ActivationText(moe.activation)},
          {"gated", moe.gated.value ? "true" : "false"},
          {"shared_expert", SharedExpertText(moe.shared_expert)}};
}

Fields OverrideFields(const MoeSpec& base, const MoeSpec& own) {
  Fields fields = Difference(MoeFields(base), MoeFields(own));
  if (const Fields router = Difference(RouterFields(base.router), RouterFields(own.router)); !router.empty()) {
    fields.emplace_back("router", FlowMap(router));
  }
  Fields tensors;
  for (const TensorSpec& tensor : own.tensors) {
    const TensorSpec* other = base.FindTensor(tensor.role.value);
    const Fields row = Difference(other == nullptr ? Fields{} : TensorFields(*other), TensorFields(tensor));
    if (!row.empty()) tensors.emplace_back(WordOf(tensor.role.value), FlowMap(row));
  }
  if (!tensors.empty()) fields.emplace_back("tensors", FlowMap(tensors));
  return fields;
}

uint64_t LayerCount(const LayerGroup& group) {
  uint64_t count = 0;
  for (const LayerRange& range : group.layers) count += range.last - range.first;
  return count;
}

// Ranges of several groups in one ascending list without touching ones.
std::vector<LayerRange> Joined(std::vector<LayerRange> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const LayerRange& a, const LayerRange& b) { return a.first < b.first; });
  std::vector<LayerRange> joined;
  for (const LayerRange& range : ranges) {
    if (!joined.empty() && joined.back().last == range.first) {
      joined.back().last = range.last;
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

std::string ExpertsText(const Manifest& manifest, const LayerGroup& base) {
  std::vector<std::pair<LayerRange, uint64_t>> others;
  for (const LayerGroup& group : manifest.groups) {
    if (group.moe.experts.value == base.moe.experts.value) continue;
    for (const LayerRange& range : group.layers) others.emplace_back(range, group.moe.experts.value);
  }
  if (others.empty()) return absl::StrCat(base.moe.experts.value);
  std::sort(others.begin(), others.end(), [](const auto& a, const auto& b) { return a.first.first < b.first.first; });
  Fields fields = {{"default", absl::StrCat(base.moe.experts.value)}};
  for (const auto& [range, experts] : others) fields.emplace_back(RangeText(range), absl::StrCat(experts));
  return FlowMap(fields);
}

std::string OtherWeightsText(const OtherWeightsSpec& other) {
  if (other.first.value == 0 && other.last.value == 0) return SizeText(other.layers.value);
  return FlowMap({{"first", SizeText(other.first.value)},
                  {"layers", SizeText(other.layers.value)},
                  {"last", SizeText(other.last.value)}});
}

}  // namespace

std::string MoeLine(const MoeSpec& moe) {
  Fields fields = MoeFields(moe);
  fields.emplace_back("experts", absl::StrCat(moe.experts.value));
  fields.emplace_back("router", FlowMap(RouterFields(moe.router)));
  fields.emplace_back("token_table", RangesText(moe.router.token_table_layers.value));
  fields.emplace_back("vocabulary", absl::StrCat(moe.router.vocabulary.value));
  fields.emplace_back("residual", WordOf(moe.residual.value));
  for (const TensorSpec& tensor : moe.tensors) {
    fields.emplace_back(WordOf(tensor.role.value), FlowMap(TensorFields(tensor)));
  }
  return FlowMap(fields);
}

std::string WriteManifest(const Manifest& manifest, absl::Span<const std::string> comment) {
  const LayerGroup& base =
      *std::max_element(manifest.groups.begin(), manifest.groups.end(),
                        [](const LayerGroup& a, const LayerGroup& b) { return LayerCount(a) < LayerCount(b); });
  const MoeSpec& moe = base.moe;
  std::string text;
  for (const std::string& line : comment) absl::StrAppend(&text, "# ", line, "\n");
  std::string attention = "{kind: other}";
  if (manifest.attention.has_value()) {
    attention = FlowMap({{"heads", absl::StrCat(manifest.attention->heads.value)},
                         {"kv_heads", absl::StrCat(manifest.attention->kv_heads.value)},
                         {"head_dim", absl::StrCat(manifest.attention->head_dim.value)}});
  }
  absl::StrAppend(&text, "meshseal: 1\nmodel:\n  name: ", Word(manifest.name.value),
                  "\n  family: ", Word(manifest.family.value), "\n  hidden_size: ", manifest.hidden_size.value,
                  "\n  layers: ", manifest.layers.value, "\n  attention: ", attention,
                  "\n  other_weights: ", OtherWeightsText(manifest.other_weights), "\n");
  if (manifest.mtp_layers.value != 0) absl::StrAppend(&text, "  mtp_layers: ", manifest.mtp_layers.value, "\n");

  const std::vector<LayerRange>& layers = manifest.moe_layers.value;
  const bool all = layers.size() == 1 && layers[0].first == 0 && layers[0].last == manifest.layers.value;
  absl::StrAppend(&text, "moe:\n  layers: ", all ? "all" : RangesText(layers),
                  "\n  experts: ", ExpertsText(manifest, base), "\n  experts_per_token: ", moe.experts_per_token.value,
                  "\n  intermediate_size: ", moe.intermediate_size.value, "\n  router:\n");
  for (const auto& [key, value] : RouterFields(moe.router)) absl::StrAppend(&text, "    ", key, ": ", value, "\n");
  std::vector<LayerRange> tabled;
  uint64_t vocabulary = 0;
  for (const LayerGroup& group : manifest.groups) {
    if (!group.moe.router.token_table_layers.value.empty()) {
      tabled.insert(tabled.end(), group.layers.begin(), group.layers.end());
      vocabulary = group.moe.router.vocabulary.value;
    }
  }
  absl::StrAppend(
      &text, "    token_table: ",
      tabled.empty()
          ? "none"
          : FlowMap({{"layers", RangesText(Joined(std::move(tabled)))}, {"vocabulary", absl::StrCat(vocabulary)}}),
      "\n  activation: ", ActivationText(moe.activation), "\n  gated: ", moe.gated.value ? "true" : "false",
      "\n  shared_expert: ", SharedExpertText(moe.shared_expert), "\n  residual: ", WordOf(moe.residual.value),
      "\nweights:\n  source: ",
      manifest.source.value == WeightSource::kSynthetic ? absl::StrCat("{synthetic: {seed: ", manifest.seed, "}}")
                                                        : WordOf(manifest.source.value),
      "\n  tensors:\n");
  for (const TensorSpec& tensor : moe.tensors) {
    absl::StrAppend(&text, "    ", WordOf(tensor.role.value), ": ", FlowMap(TensorFields(tensor)), "\n");
  }
  absl::StrAppend(
      &text, "  ignored: [",
      absl::StrJoin(manifest.ignored, ", ",
                    [](std::string* out, const Spanned<std::string>& pattern) { *out += DoubleQuoted(pattern.value); }),
      "]\n");

  // Groups that differ only in their number of experts or in the token table share a row.
  std::vector<std::pair<Fields, std::vector<LayerRange>>> overrides;
  for (const LayerGroup& group : manifest.groups) {
    const Fields fields = OverrideFields(moe, group.moe);
    if (fields.empty()) continue;
    auto row = std::find_if(overrides.begin(), overrides.end(), [&](const auto& own) { return own.first == fields; });
    if (row == overrides.end()) row = overrides.insert(overrides.end(), {fields, {}});
    row->second.insert(row->second.end(), group.layers.begin(), group.layers.end());
  }
  if (!overrides.empty()) text += "overrides:\n";
  for (auto& [fields, ranges] : overrides) {
    Fields row = {{"layers", RangesText(Joined(std::move(ranges)))}};
    row.insert(row.end(), fields.begin(), fields.end());
    absl::StrAppend(&text, "  - ", FlowMap(row), "\n");
  }
  text += "collectives:\n";
  for (const CollectiveSpec& collective : manifest.collectives) {
    absl::StrAppend(&text, "  - ",
                    FlowMap({{"after", Word(collective.after.value)},
                             {"op", Word(collective.op.value)},
                             {"over", Word(collective.over.value)}}),
                    "\n");
  }
  return text;
}

}  // namespace meshseal::compiler
