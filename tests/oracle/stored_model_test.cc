// A trained model (tests/data/tiny-qwen3-moe) converted to GGUF in several formats: imported, compiled, run, and held
// against what PyTorch recorded of the original weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/import/import_model.h"
#include "compiler/text/render.h"
#include "runtime/weights/rank_weights.h"
#include "runtime/weights/weight_files.h"
#include "schema/float_bits.h"
#include "schema/safetensors.h"
#include "tests/oracle/deployed_model.h"
#include "tests/runtime/oracle.h"
#include "tests/runtime/recorded_model.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/gguf_blocks.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/sanitized.h"

namespace meshseal::oracle {
namespace {

namespace fs = std::filesystem;
using runtime::Recorded;
using runtime::RecordedFolder;
using support::RelativeDifference;

constexpr uint32_t kLayers = 3;
constexpr uint32_t kExperts = 16;
constexpr uint32_t kHidden = 256;
constexpr uint32_t kWidth = 128;
constexpr uint32_t kTokens = 64;

// Rows of down are 128 wide, half of a block of q4_k.
struct Format {
  const char* name;
  DType gate_up;
  DType down;
  double bound;  // of the outputs
};
std::vector<Format> Formats() {
  const Format mixed = {"q4_k with q8_0", DType::kQ4K, DType::kQ8_0, 5e-2};
  if (support::kSanitized) return {mixed};
  return {{"f16", DType::kF16, DType::kF16, 2e-6},
          {"q8_0", DType::kQ8_0, DType::kQ8_0, 6e-3},
          {"q4_0", DType::kQ4_0, DType::kQ4_0, 1e-1},
          mixed};
}

std::vector<float> Bf16Values(const SafetensorsFile& file, const std::string& name) {
  std::vector<float> values;
  for (const uint16_t bits : Recorded<uint16_t>(file, name)) values.push_back(Bf16ToFloat(bits));
  return values;
}

// The MoE part of the model; the router in f32.
std::string AsGguf(const Format& format) {
  const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(RecordedFolder() / "model.safetensors");
  EXPECT_TRUE(file.ok()) << file.status();
  if (!file.ok()) return "";
  support::GgufWriter writer;
  writer.Text("general.architecture", "qwen3moe").Text("general.name", "tiny");
  writer.U32("qwen3moe.block_count", kLayers).U32("qwen3moe.embedding_length", kHidden);
  writer.U32("qwen3moe.attention.head_count", 4).U32("qwen3moe.attention.head_count_kv", 2);
  writer.U32("qwen3moe.attention.key_length", 64);
  writer.U32("qwen3moe.expert_count", kExperts).U32("qwen3moe.expert_used_count", 4);
  writer.U32("qwen3moe.expert_feed_forward_length", kWidth);
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    const std::string from = absl::StrCat("model.layers.", layer, ".mlp.");
    const std::string to = absl::StrCat("blk.", layer, ".ffn_");
    writer.Tensor(to + "gate_inp.weight", DType::kF32, {kHidden, kExperts},
                  support::EncodeBlocks(DType::kF32, Bf16Values(*file, from + "gate.weight")));
    for (const char* part : {"gate", "up", "down"}) {
      const bool down = std::string(part) == "down";
      const DType dtype = down ? format.down : format.gate_up;
      std::string stack;
      for (uint32_t expert = 0; expert < kExperts; ++expert) {
        stack += support::EncodeBlocks(
            dtype, Bf16Values(*file, absl::StrCat(from, "experts.", expert, ".", part, "_proj.weight")));
      }
      const uint64_t input = down ? kWidth : kHidden;
      const uint64_t outputs = down ? kHidden : kWidth;
      writer.Tensor(absl::StrCat(to, part, "_exps.weight"), dtype, {input, outputs, kExperts}, stack);
    }
  }
  return writer.Bytes();
}

// A file of the model in `format`, and the manifest that import makes of it.
class StoredModel {
 public:
  explicit StoredModel(const Format& format) {
    support::WriteFile(weights(), AsGguf(format));
    const absl::StatusOr<compiler::ImportResult> result = compiler::ImportGguf({weights().string()});
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return;
    EXPECT_TRUE(result->diagnostics.ok()) << compiler::RenderText(result->diagnostics);
    EXPECT_TRUE(absl::StrContains(result->text, absl::StrCat("dtype: ", DTypeName(format.gate_up)))) << result->text;
    support::WriteFile(manifest(), result->text);
  }

  fs::path weights() const { return folder_.path() / "tiny.gguf"; }
  fs::path manifest() const { return folder_.path() / "model.yaml"; }

 private:
  support::TempFolder folder_;
};

TEST(StoredModel, GivesNearlyWhatWasRecorded) {
  const uint32_t tokens = support::kSanitized ? 7 : kTokens;
  const absl::StatusOr<SafetensorsFile> recorded =
      SafetensorsFile::Open(RecordedFolder() / "recorded" / absl::StrCat("prompt-", tokens, ".safetensors"));
  ASSERT_TRUE(recorded.ok()) << recorded.status();
  for (const Format& format : Formats()) {
    const StoredModel model(format);
    for (const World world : {World{1, 4}, World{2, 1}}) {
      SCOPED_TRACE(absl::StrCat(format.name, ", ", TextOf(world)));
      const absl::StatusOr<std::unique_ptr<runtime::Session>> session =
          OpenModel(model.manifest(), model.weights(), world, tokens);
      ASSERT_TRUE(session.ok()) << session.status();
      double worst = 0;
      for (uint32_t layer = 0; layer < kLayers; ++layer) {
        const std::string prefix = absl::StrCat("layer.", layer, ".");
        const Output output =
            RunLayer(**session, layer, Phase::kPrefill, Recorded<float>(*recorded, prefix + "hidden_in"));
        // The router is the same.
        EXPECT_EQ(output.experts, Recorded<int32_t>(*recorded, prefix + "expert_ids"));
        EXPECT_LE(RelativeDifference(output.weights, Recorded<float>(*recorded, prefix + "expert_weights")), 1e-6);
        worst = std::max(worst, RelativeDifference(output.hidden, Recorded<float>(*recorded, prefix + "hidden_out")));
      }
      std::printf("%-15s %s  %.1e\n", format.name, TextOf(world).c_str(), worst);
      EXPECT_LE(worst, format.bound);
    }
  }
}

// All ranks' weights of a plan.
struct Loaded {
  SealedPlan plan;
  std::vector<runtime::RankWeights> ranks;
};

std::unique_ptr<Loaded> Load(const StoredModel& model, World world) {
  absl::StatusOr<SealedPlan> plan = CompileModel(model.manifest(), world, kTokens);
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return nullptr;
  auto loaded = std::make_unique<Loaded>(Loaded{*std::move(plan), {}});
  for (uint32_t rank = 0; rank < world.tp * world.ep; ++rank) {
    const absl::StatusOr<runtime::WeightFiles> files =
        runtime::WeightFiles::Open(loaded->plan, model.weights(), nullptr);
    absl::StatusOr<runtime::RankWeights> weights = runtime::RankWeights::Reserve(loaded->plan, rank);
    EXPECT_TRUE(files.ok() && weights.ok()) << files.status() << weights.status();
    if (!files.ok() || !weights.ok()) return nullptr;
    const absl::Status status = weights->Load(*files, 1, nullptr);
    EXPECT_TRUE(status.ok()) << status;
    loaded->ranks.push_back(*std::move(weights));
  }
  return loaded;
}

std::vector<float> RowOf(const runtime::WeightMatrix& matrix, uint32_t row) {
  std::vector<float> values(matrix.columns);
  matrix.Row(row, absl::MakeSpan(values));
  return values;
}

// What two ranks decode of their parts is what one rank decodes of the whole, bit for bit.
TEST(StoredModel, CutRowsAreWholeRows) {
  for (const Format& format : Formats()) {
    SCOPED_TRACE(format.name);
    const StoredModel model(format);
    const std::unique_ptr<Loaded> whole = Load(model, {1, 1});
    const std::unique_ptr<Loaded> cut = Load(model, {2, 1});
    ASSERT_TRUE(whole != nullptr && cut != nullptr);
    const uint32_t experts = support::kSanitized ? 2 : kExperts;
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      for (uint32_t expert = 0; expert < experts; ++expert) {
        const runtime::ExpertWeights& all = whole->ranks[0].Layer(layer)->experts[expert];
        const runtime::ExpertWeights& low = cut->ranks[0].Layer(layer)->experts[expert];
        const runtime::ExpertWeights& high = cut->ranks[1].Layer(layer)->experts[expert];
        ASSERT_EQ(low.gate.rows, kWidth / 2);
        ASSERT_EQ(high.down.columns, kWidth / 2);
        for (uint32_t row = 0; row < kWidth; ++row) {
          const runtime::ExpertWeights& half = row < kWidth / 2 ? low : high;
          ASSERT_EQ(RowOf(half.gate, row % (kWidth / 2)), RowOf(all.gate, row));
          ASSERT_EQ(RowOf(half.up, row % (kWidth / 2)), RowOf(all.up, row));
        }
        for (uint32_t row = 0; row < kHidden; ++row) {
          std::vector<float> joined = RowOf(low.down, row);
          const std::vector<float> rest = RowOf(high.down, row);
          joined.insert(joined.end(), rest.begin(), rest.end());
          ASSERT_EQ(joined, RowOf(all.down, row));
        }
      }
    }
  }
}

}  // namespace
}  // namespace meshseal::oracle
