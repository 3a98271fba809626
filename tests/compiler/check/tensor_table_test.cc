// A model's tensor rows against the headers of files: every packing that a format has, and what is said of those that
// differ.
#include "compiler/check/tensor_table.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "schema/tensor_name.h"
#include "tests/compiler/manifest/shipped_model.h"
#include "tests/support/checkpoint_writer.h"

namespace meshseal::compiler {
namespace {

struct Header {
  std::string dtype;  // as safetensors spells it
  std::vector<uint64_t> shape;
};
using Headers = std::map<std::string, Header>;

uint64_t BytesOfHeader(const Header& header) {
  const std::map<std::string, uint64_t> bits = {{"F32", 32},    {"BF16", 16},   {"F16", 16}, {"U8", 8},  {"I8", 8},
                                                {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F4", 4},   {"I64", 64}};
  uint64_t elements = 1;
  for (const uint64_t extent : header.shape) elements *= extent;
  return elements * bits.at(header.dtype) / 8;
}

// A model cut down to one layer, whose files a test can write, and what is said of them.
class TensorTableTest : public testing::Test {
 protected:
  // The payload is a hole: only headers are read.
  std::string SaidOf(const ShippedModel& shipped, const Headers& headers) {
    EXPECT_EQ(shipped.missing_edit(), "");
    EXPECT_EQ(shipped.Said(), "");
    if (!shipped.has_model()) return "no model";
    std::string json = "{";
    uint64_t offset = 0;
    for (const auto& [name, header] : headers) {
      const uint64_t end = offset + BytesOfHeader(header);
      absl::StrAppend(&json, json.size() > 1 ? "," : "", "\"", name, "\":{\"dtype\":\"", header.dtype, "\",\"shape\":[",
                      absl::StrJoin(header.shape, ","), "],\"data_offsets\":[", offset, ",", end, "]}");
      offset = end;
    }
    json += "}";
    std::string bytes(8, '\0');
    for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>((json.size() >> (8 * i)) & 0xff);
    const std::filesystem::path file = folder_.path() / "model.safetensors";
    support::WriteFile(file, bytes + json);
    std::filesystem::resize_file(file, 8 + json.size() + offset);
    const absl::StatusOr<CheckpointListing> files = CheckpointListing::Open(folder_.path());
    if (!files.ok()) return std::string(files.status().message());
    Diagnostics diagnostics;
    CheckTensorTable(shipped.model(), *files, diagnostics);
    std::string said;
    for (const Diagnostic* error : diagnostics.Sorted()) {
      absl::StrAppend(&said, error->text, " [", error->rule, "]\n");
      for (const Note& note : error->notes) absl::StrAppend(&said, "  ", note.text, "\n");
    }
    return said;
  }

  // The experts' tensors of one name pattern.
  static void Add(Headers& headers, const std::string& pattern, uint32_t experts, const Header& header) {
    for (uint32_t expert = 0; expert < experts; ++expert) headers[TensorName(pattern, 0, expert)] = header;
  }

  support::TempFolder folder_;
};

// gpt-oss with one layer of two experts: fused, interleaved, four-bit codes with scales apart, biases.
ShippedModel OneLayerGptOss() {
  return ShippedModel("gpt-oss-20b", {{"layers: 24", "layers: 1"}, {"experts: 32", "experts: 4"}}, "");
}

Headers GptOssHeaders() {
  const std::string mlp = "model.layers.0.mlp.";
  return {{mlp + "router.weight", {"BF16", {4, 2880}}},
          {mlp + "router.bias", {"BF16", {4}}},
          {mlp + "experts.gate_up_proj_blocks", {"U8", {4, 5760, 90, 16}}},
          {mlp + "experts.gate_up_proj_scales", {"U8", {4, 5760, 90}}},
          {mlp + "experts.gate_up_proj_bias", {"BF16", {4, 5760}}},
          {mlp + "experts.down_proj_blocks", {"U8", {4, 2880, 90, 16}}},
          {mlp + "experts.down_proj_scales", {"U8", {4, 2880, 90}}},
          {mlp + "experts.down_proj_bias", {"BF16", {4, 2880}}}};
}

TEST_F(TensorTableTest, Mxfp4AsBlocksHalvesOrLogicalElements) {
  Headers headers = GptOssHeaders();
  EXPECT_EQ(SaidOf(OneLayerGptOss(), headers), "");
  headers["model.layers.0.mlp.experts.down_proj_blocks"] = {"U8", {4, 2880, 1440}};
  EXPECT_EQ(SaidOf(OneLayerGptOss(), headers), "");
  headers["model.layers.0.mlp.experts.down_proj_blocks"] = {"I8", {4, 2880, 1440}};
  EXPECT_EQ(SaidOf(OneLayerGptOss(), headers), "");
  headers["model.layers.0.mlp.experts.down_proj_blocks"] = {"F4", {4, 2880, 2880}};
  EXPECT_EQ(SaidOf(OneLayerGptOss(), headers), "");
  headers["model.layers.0.mlp.experts.down_proj_blocks"] = {"U8", {4, 2880, 2880}};
  EXPECT_EQ(SaidOf(OneLayerGptOss(), headers),
            "tensor 'down': 'model.layers.0.mlp.experts.down_proj_blocks' is [4, 2880, 2880] in the files, expected "
            "[4, 2880, 1440] [tensor-shape-fits-files]\n");
}

TEST_F(TensorTableTest, ASideTensorIsComparedLikeItsWeight) {
  Headers headers = GptOssHeaders();
  headers["model.layers.0.mlp.experts.down_proj_scales"] = {"U8", {4, 2880, 45}};
  headers["model.layers.0.mlp.experts.gate_up_proj_scales"] = {"F8_E8M0", {4, 5760, 90}};
  EXPECT_EQ(SaidOf(OneLayerGptOss(), headers),
            "tensor 'gate_up.scale': 'model.layers.0.mlp.experts.gate_up_proj_scales' is f8_e8m0 in the files, "
            "expected u8 [tensor-dtype-fits-files]\n"
            "tensor 'down.scale': 'model.layers.0.mlp.experts.down_proj_scales' is [4, 2880, 45] in the files, "
            "expected [4, 2880, 90]; it looks cut already: 45 = 90 / 2 [tensor-shape-fits-files]\n");
}

TEST_F(TensorTableTest, ManyOfOneKindAreToldOnce) {
  const ShippedModel shipped("qwen3-30b-a3b", {{"layers: 48", "layers: 1"}}, "");
  const std::string experts = "model.layers.{layer}.mlp.experts.{expert}.";
  Headers headers;
  headers["model.layers.0.mlp.gate.weight"] = {"BF16", {128, 2048}};
  Add(headers, experts + "gate_proj.weight", 128, {"BF16", {768, 2048}});
  Add(headers, experts + "up_proj.weight", 128, {"BF16", {768, 2048}});
  Add(headers, experts + "down_proj.weight", 128, {"BF16", {2048, 768}});
  EXPECT_EQ(SaidOf(shipped, headers), "");
  headers["model.norm.weight"] = {"BF16", {2048}};  // ignored
  EXPECT_EQ(SaidOf(shipped, headers), "");
  headers.erase("model.layers.0.mlp.experts.5.down_proj.weight");
  headers.erase("model.layers.0.mlp.experts.77.down_proj.weight");
  headers["model.layers.0.mlp.experts.5.down_proj.weights"] = {"BF16", {2048, 768}};
  headers["model.layers.0.mlp.experts.77.down_proj.weights"] = {"BF16", {2048, 768}};
  Add(headers, experts + "gate_proj.weight", 128, {"F16", {768, 2048}});
  Add(headers, experts + "up_proj.weight", 128, {"BF16", {2048, 768}});
  EXPECT_EQ(
      SaidOf(shipped, headers),
      "no step reads the files' tensor 'model.layers.0.mlp.experts.5.down_proj.weights' and 1 like it, and no "
      "ignored pattern matches them [tensor-is-accounted-for]\n"
      "tensor 'gate': 'model.layers.0.mlp.experts.0.gate_proj.weight' and 127 more are f16 in the files, "
      "expected bf16 [tensor-dtype-fits-files]\n"
      "tensor 'up': 'model.layers.0.mlp.experts.0.up_proj.weight' and 127 more are [2048, 768] in the files, "
      "expected [768, 2048]; the axes are the other way round [tensor-shape-fits-files]\n"
      "tensor 'down': the files have no 'model.layers.0.mlp.experts.5.down_proj.weight' and 1 more; the "
      "nearest one that no step reads is 'model.layers.0.mlp.experts.5.down_proj.weights' [tensor-is-in-files]\n");
}

TEST_F(TensorTableTest, RoutersTellTheExpertsOfEachLayer) {
  const ShippedModel shipped("granite-3.x-1b-a400m", {{"layers: 24", "layers: 4"}, {"experts: 32", "experts: 8"}}, "");
  Headers headers;
  for (uint32_t layer = 0; layer < 4; ++layer) {
    const uint64_t experts = layer % 2 == 0 ? 8 : 16;
    const std::string block = absl::StrCat("model.layers.", layer, ".block_sparse_moe.");
    headers[block + "router.layer.weight"] = {"BF16", {experts, 1024}};
    headers[block + "input_linear.weight"] = {"BF16", {experts, 1024, 1024}};
    headers[block + "output_linear.weight"] = {"BF16", {experts, 1024, 512}};
  }
  const std::string said = SaidOf(shipped, headers);
  EXPECT_TRUE(said.find("'model.layers.1.block_sparse_moe.router.layer.weight' and 1 more are [16, 1024] in the files, "
                        "expected [8, 1024]") != std::string::npos)
      << said;
  EXPECT_TRUE(said.find("  the routers' own counts are experts: {default: 8, 1: 16, 3: 16}\n") != std::string::npos)
      << said;
  const ShippedModel told("granite-3.x-1b-a400m",
                          {{"layers: 24", "layers: 4"}, {"experts: 32", "experts: {default: 8, 1: 16, 3: 16}"}}, "");
  EXPECT_EQ(SaidOf(told, headers), "");
}

}  // namespace
}  // namespace meshseal::compiler
