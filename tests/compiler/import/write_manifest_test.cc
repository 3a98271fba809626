#include "compiler/import/write_manifest.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/manifest/read_manifest.h"
#include "compiler/text/render.h"
#include "compiler/yaml/yaml.h"

namespace meshseal::compiler {
namespace {

// A manifest and the file it points into.
struct Document {
  std::unique_ptr<const SourceFile> file;
  Manifest manifest;
};

Document Read(std::unique_ptr<const SourceFile> file) {
  Diagnostics diagnostics;
  std::optional<YamlNode> root = ReadYaml(*file, diagnostics);
  EXPECT_TRUE(root.has_value()) << RenderText(diagnostics, {});
  std::optional<Manifest> manifest;
  if (root.has_value()) manifest = ReadManifest(*file, *root, diagnostics);
  EXPECT_TRUE(manifest.has_value()) << RenderText(diagnostics, {});
  return {std::move(file), manifest.value_or(Manifest{})};
}

Document ReadText(const std::string& text) { return Read(*SourceFile::FromText("m.yaml", text)); }

std::string MoeLines(const Manifest& manifest) {
  std::string text;
  for (const LayerGroup& group : manifest.groups) {
    for (const LayerRange& range : group.layers) absl::StrAppend(&text, "[", range.first, ",", range.last, ")");
    absl::StrAppend(&text, " ", MoeLine(group.moe), "\n");
  }
  return text;
}

TEST(WriteManifest, EveryShippedModelReadsBackAsItself) {
  size_t models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(MESHSEAL_MANIFESTS "/models")) {
    SCOPED_TRACE(entry.path().string());
    const Document original = Read(*SourceFile::Read(entry.path().string()));
    const std::string text = WriteManifest(original.manifest, {"a comment"});
    const Document again = ReadText(text);
    EXPECT_EQ(WriteManifest(again.manifest, {"a comment"}), text);
    EXPECT_EQ(MoeLines(again.manifest), MoeLines(original.manifest));
    EXPECT_EQ(again.manifest.other_weights.layers.value, original.manifest.other_weights.layers.value);
    EXPECT_EQ(again.manifest.mtp_layers.value, original.manifest.mtp_layers.value);
    EXPECT_EQ(again.manifest.attention.has_value(), original.manifest.attention.has_value());
    ++models;
  }
  EXPECT_GE(models, 2u);
}

// A small model in which layers differ.
Manifest Small() {
  const auto text = [](absl::string_view value) { return Spanned<std::string>{std::string(value), {}}; };
  Manifest manifest;
  manifest.name = text("small");
  manifest.family = text("mixtral");
  manifest.hidden_size.value = 64;
  manifest.layers.value = 12;
  manifest.moe_layers.value = {{0, 12}};
  manifest.source.value = WeightSource::kSafetensors;
  manifest.collectives.push_back({{}, text("combine"), text("sum"), text("expert_group")});
  LayerGroup group;
  group.layers = {{0, 12}};
  MoeSpec& moe = group.moe;
  moe.experts.value = 8;
  moe.experts_per_token.value = 2;
  moe.intermediate_size.value = 32;
  moe.router.scoring.value = Scoring::kSoftmax;
  moe.router.order.value = RouteOrder::kScoreThenTopK;
  moe.router.renormalize.value = Renormalize::kSum;
  moe.router.scale.value = 1;
  moe.router.weight_applied.value = WeightPoint::kOutput;
  moe.router.input_dtype.value = Basis::kBf16;
  moe.activation.kind.value = ActivationKind::kSwiGlu;
  moe.gated.value = true;
  moe.residual.value = Residual::kNone;
  const auto add = [&](TensorRole role, absl::string_view name, std::vector<ShapeAxis> shape) {
    TensorSpec tensor;
    tensor.role.value = role;
    tensor.name = text(name);
    tensor.dtype.value = DType::kBf16;
    tensor.shape.value = std::move(shape);
    moe.tensors.push_back(std::move(tensor));
  };
  add(TensorRole::kRouter, "l.{layer}.r", {ShapeAxis::kExperts, ShapeAxis::kHidden});
  add(TensorRole::kGate, "l.{layer}.{expert}.g", {ShapeAxis::kIntermediate, ShapeAxis::kHidden});
  add(TensorRole::kUp, "l.{layer}.{expert}.u", {ShapeAxis::kIntermediate, ShapeAxis::kHidden});
  add(TensorRole::kDown, "l.{layer}.{expert}.d", {ShapeAxis::kHidden, ShapeAxis::kIntermediate});
  manifest.groups.push_back(std::move(group));
  return manifest;
}

// The lines of `text` from the one that begins with `from` to before the one that begins with `to`.
std::string Part(const std::string& text, const std::string& from, const std::string& to) {
  const size_t begin = text.find("\n" + from) + 1;
  return text.substr(begin, text.find("\n" + to, begin) + 1 - begin);
}

TEST(WriteManifest, DifferencesAreRowsOverTheLargestGroup) {
  Manifest manifest = Small();
  LayerGroup& base = manifest.groups[0];
  SideTensorSpec scale;
  scale.name.value = "l.{layer}.{expert}.d.s";
  scale.dtype.value = DType::kF32;
  scale.block = Spanned<ScaleBlock>{{128, 128}, {}};
  scale.applies.value = ScaleApplies::kMultiply;
  base.moe.tensors[3].dtype.value = DType::kF8E4M3;
  base.moe.tensors[3].scale = scale;

  LayerGroup plain = base;  // without the scale
  plain.moe.tensors[3].dtype.value = DType::kBf16;
  plain.moe.tensors[3].scale.reset();
  LayerGroup fewer = plain;  // the same, with fewer experts
  fewer.moe.experts.value = 6;
  LayerGroup scaled = base;
  scaled.moe.router.scale.value = 2.5;
  scaled.moe.router.groups = RouterGroupsSpec{{}, {4, {}}, {2, {}}, {GroupScore::kTop2Sum, {}}};
  scaled.moe.activation.limit = Spanned<double>{7, {}};
  base.layers = {{1, 3}, {5, 10}};
  plain.layers = {{0, 1}, {4, 5}};
  fewer.layers = {{3, 4}};
  scaled.layers = {{10, 12}};
  manifest.groups = {plain, base, fewer, scaled};

  const std::string text = WriteManifest(manifest, {});
  EXPECT_EQ(Part(text, "  experts:", "  experts_per"), "  experts: {default: 8, 3: 6}\n");
  EXPECT_EQ(
      Part(text, "overrides:", "collectives:"),
      "overrides:\n"
      "  - {layers: [0, 3-4], tensors: {down: {dtype: bf16, scale: none}}}\n"
      "  - {layers: [10-11], activation: {kind: swiglu, limit: 7.0}, router: {scale: 2.5, groups: {count: 4, keep: 2, "
      "score: top2_sum}}}\n");
  const Document again = ReadText(text);
  EXPECT_EQ(WriteManifest(again.manifest, {}), text);
  EXPECT_EQ(MoeLines(again.manifest), MoeLines(manifest));
}

TEST(WriteManifest, TokenTableLayersStandInTheRouter) {
  Manifest manifest = Small();
  LayerGroup tabled = manifest.groups[0];
  tabled.moe.router.token_table_layers.value = {{0, 2}};
  tabled.moe.router.vocabulary.value = 1000;
  tabled.layers = {{0, 2}};
  manifest.groups[0].layers = {{2, 12}};
  manifest.groups.insert(manifest.groups.begin(), tabled);
  const std::string text = WriteManifest(manifest, {});
  EXPECT_EQ(Part(text, "    token_table:", "  activation:"), "    token_table: {layers: [0-1], vocabulary: 1000}\n");
  EXPECT_EQ(text.find("overrides"), std::string::npos);
  const Document again = ReadText(text);
  EXPECT_EQ(MoeLines(again.manifest), MoeLines(manifest));
}

TEST(WriteManifest, NamesOfAnyPrintableCharactersReadBack) {
  for (const std::string name : {"a",
                                 "null",
                                 "true",
                                 "1.5",
                                 "-",
                                 "a b",
                                 "a: b",
                                 "a #b",
                                 "\"q\"",
                                 "back\\slash",
                                 "{layer}",
                                 "[x]",
                                 "\xC3\xA9\xE2\x80\xA8\xF0\x9F\x98\x80",
                                 "\xC2\x85\xEF\xBB\xBF",
                                 "'single'",
                                 "%d",
                                 "&x",
                                 "*x",
                                 "!x",
                                 "?",
                                 "@",
                                 "`",
                                 "~",
                                 "a,b"}) {
    Manifest manifest = Small();
    manifest.name.value = name;
    manifest.ignored.push_back({name + "x", {}});
    const std::string text = WriteManifest(manifest, {});
    const Document again = ReadText(text);
    EXPECT_EQ(again.manifest.name.value, name) << text;
    ASSERT_EQ(again.manifest.ignored.size(), 1u);
    EXPECT_EQ(again.manifest.ignored[0].value, name + "x");
    EXPECT_EQ(WriteManifest(again.manifest, {}), text);
  }
}

TEST(WriteManifest, NumbersAndSizes) {
  Manifest manifest = Small();
  const auto written = [&](const std::string& from, const std::string& to) {
    return Part(WriteManifest(manifest, {}), from, to);
  };
  manifest.groups[0].moe.router.renormalize.value = Renormalize::kSumPlus;
  for (const auto& [value, text] : std::vector<std::pair<double, std::string>>{
           {1e-20, "1.0e-20"}, {6.103515625e-05, "6.103515625e-05"}, {1, "1.0"}, {0.1, "0.1"}, {1e22, "1.0e+22"}}) {
    manifest.groups[0].moe.router.guard.value = value;
    EXPECT_EQ(written("    renormalize:", "    scale:"), "    renormalize: {sum_plus: {guard: " + text + "}}\n");
    EXPECT_EQ(ReadText(WriteManifest(manifest, {})).manifest.groups[0].moe.router.guard.value, value);
  }
  for (const auto& [bytes, text] : std::vector<std::pair<uint64_t, std::string>>{{0, "0B"},
                                                                                 {1, "1B"},
                                                                                 {1000, "1000B"},
                                                                                 {1024, "1KiB"},
                                                                                 {uint64_t{2970} << 20, "2970MiB"},
                                                                                 {uint64_t{1} << 40, "1TiB"},
                                                                                 {uint64_t{3} << 50, "3072TiB"}}) {
    manifest.other_weights.layers.value = bytes;
    EXPECT_EQ(written("  other_weights:", "moe:"), "  other_weights: " + text + "\n");
    EXPECT_EQ(ReadText(WriteManifest(manifest, {})).manifest.other_weights.layers.value, bytes);
  }
}

}  // namespace
}  // namespace meshseal::compiler
