// What of a checkpoint is refused, with which words, and that a rank reads its own atoms and nothing else.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "runtime/weights/rank_weights.h"
#include "runtime/weights/weight_files.h"
#include "runtime/weights/weight_matrix.h"
#include "schema/reason.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/plan_builder.h"

namespace meshseal::runtime {
namespace {

using support::Checkpoint;
using support::PlanNumbers;
using support::RandomCheckpoint;
using support::TempFolder;
using support::Tensor;

class WeightFilesTest : public testing::Test {
 protected:
  absl::Status OpenStatus(const Checkpoint& checkpoint, const PlanNumbers& numbers = {}) {
    support::WriteCheckpoint(folder_.path(), checkpoint);
    return WeightFiles::Open(support::BuildSealedPlan(numbers), folder_.path(), nullptr).status();
  }
  std::string File() const { return (folder_.path() / "model.safetensors").string(); }

  const TempFolder folder_;
  Checkpoint checkpoint_ = RandomCheckpoint(support::BuildPlan({}), 1);
};

TEST_F(WeightFilesTest, TakesACheckpointThatThePlanReads) {
  EXPECT_TRUE(OpenStatus(checkpoint_).ok()) << OpenStatus(checkpoint_);
}

TEST_F(WeightFilesTest, NamesAMissingTensorAndTheNearestOne) {
  Tensor(checkpoint_, "layers.0.router").name = "layers.0.ruoter";
  const absl::Status status = OpenStatus(checkpoint_);
  EXPECT_EQ(status.message(), File() + ": tensor 'layers.0.router': not in the file, did you mean 'layers.0.ruoter'?");
  EXPECT_EQ(ReasonOf(status), Reason::kWeightsTensor);
}

TEST_F(WeightFilesTest, NamesATensorThatNothingReads) {
  checkpoint_.push_back({"layers.0.experts.8.gate", DType::kF32, {1}, {0}});
  const absl::Status status = OpenStatus(checkpoint_);
  EXPECT_EQ(status.message(),
            File() + ": tensor 'layers.0.experts.8.gate': no step reads it and no ignored pattern covers it");
  EXPECT_EQ(ReasonOf(status), Reason::kWeightsTensor);
  PlanNumbers n;
  n.ignored_tensors = {"model.*", "layers.{layer}.experts.8.*"};
  EXPECT_TRUE(OpenStatus(checkpoint_, n).ok());
}

TEST_F(WeightFilesTest, NamesAnotherDType) {
  Tensor(checkpoint_, "layers.0.router").dtype = DType::kF16;
  for (float& value : Tensor(checkpoint_, "layers.0.router").values) value = 0;
  const absl::Status status = OpenStatus(checkpoint_);
  EXPECT_EQ(status.message(), File() + ": tensor 'layers.0.router': f16 [8, 16] in the file, expected f32 [8, 16]");
  EXPECT_EQ(ReasonOf(status), Reason::kWeightsTensor);
}

TEST_F(WeightFilesTest, NamesAnotherShape) {
  Tensor(checkpoint_, "layers.0.experts.7.down").shape = {12, 16};
  const absl::Status status = OpenStatus(checkpoint_);
  EXPECT_EQ(status.message(),
            File() + ": tensor 'layers.0.experts.7.down': f32 [12, 16] in the file, expected f32 [16, 12]");
  EXPECT_EQ(ReasonOf(status), Reason::kWeightsTensor);
}

TEST_F(WeightFilesTest, NamesAFileThatIsTooShort) {
  support::WriteCheckpoint(folder_.path(), checkpoint_);
  const auto size = std::filesystem::file_size(File());
  std::filesystem::resize_file(File(), size - 1);
  const absl::Status status = WeightFiles::Open(support::BuildSealedPlan({}), folder_.path(), nullptr).status();
  const uint64_t data = 4 * (8 * 16 + 8 * 3 * 12 * 16);
  EXPECT_EQ(status.message(),
            absl::StrCat(File(), ": tensor 'layers.0.experts.7.down': needs ", data, " bytes of data from byte ",
                         size - data, " on, but the file has ", size - 1, " bytes"));
  EXPECT_EQ(ReasonOf(status), Reason::kWeightsTruncated);
}

TEST_F(WeightFilesTest, NamesAFileThatBecameShorterSinceItWasOpened) {
  support::WriteCheckpoint(folder_.path(), checkpoint_);
  const SealedPlan plan = support::BuildSealedPlan({});
  const absl::StatusOr<WeightFiles> files = WeightFiles::Open(plan, folder_.path(), nullptr);
  ASSERT_TRUE(files.ok());
  const auto size = std::filesystem::file_size(File());
  std::filesystem::resize_file(File(), size - 4);
  absl::StatusOr<RankWeights> weights = RankWeights::Reserve(plan, 0);
  ASSERT_TRUE(weights.ok());
  const absl::Status status = weights->Load(*files, 1, nullptr);
  EXPECT_EQ(status.message(),
            absl::StrCat(File(), ": ends at byte ", size - 4, ", but had ", size, " bytes when it was opened"));
  EXPECT_EQ(ReasonOf(status), Reason::kWeightsTruncated);
}

TEST_F(WeightFilesTest, NamesAFolderWithoutACheckpoint) {
  const absl::Status status = WeightFiles::Open(support::BuildSealedPlan({}), folder_.path(), nullptr).status();
  EXPECT_EQ(
      status.message(),
      absl::StrCat(folder_.path().string(),
                   ": holds no weights, expected exactly one of model.safetensors, model.safetensors.index.json with "
                   "its shards, one .gguf file, one split set of .gguf files"));
  EXPECT_EQ(ReasonOf(status), Reason::kWeightsFile);
}

TEST_F(WeightFilesTest, NamesAnotherKindOfFiles) {
  PlanNumbers n;
  n.weight_source = WeightSource::kGguf;
  support::WriteCheckpoint(folder_.path(), checkpoint_);
  const absl::Status status = WeightFiles::Open(support::BuildSealedPlan(n), folder_.path(), nullptr).status();
  EXPECT_EQ(status.message(),
            absl::StrCat(folder_.path().string(), ": holds safetensors weights, the plan's are gguf"));
  EXPECT_EQ(ReasonOf(status), Reason::kWeightsFile);
}

TEST_F(WeightFilesTest, SyntheticWeightsHaveNoFolder) {
  PlanNumbers n;
  n.weight_source = WeightSource::kSynthetic;
  const absl::Status status = WeightFiles::Open(support::BuildSealedPlan(n), folder_.path(), nullptr).status();
  EXPECT_EQ(status.message(),
            absl::StrCat(folder_.path().string(), ": the plan's weights are synthetic, nothing is read"));
  EXPECT_EQ(ReasonOf(status), Reason::kUsage);
}

// The tensors in two files, every other one in the second.
void WriteShards(const std::filesystem::path& folder, const Checkpoint& checkpoint) {
  Checkpoint shards[2];
  std::vector<std::string> map;
  for (size_t i = 0; i < checkpoint.size(); ++i) {
    shards[i % 2].push_back(checkpoint[i]);
    map.push_back(absl::StrCat("\"", checkpoint[i].name, "\":\"model-0000", 1 + i % 2, "-of-00002.safetensors\""));
  }
  for (const size_t i : {0u, 1u}) {
    support::WriteFile(folder / absl::StrCat("model-0000", 1 + i, "-of-00002.safetensors"),
                       support::EncodeSafetensors(shards[i]));
  }
  support::WriteFile(folder / "model.safetensors.index.json",
                     absl::StrCat("{\"metadata\":{},\"weight_map\":{", absl::StrJoin(map, ","), "}}"));
}

// Every byte of a rank's weights.
std::vector<float> AllOf(const RankWeights& weights) {
  std::vector<float> values;
  const auto add = [&values](const WeightMatrix& matrix) {
    std::vector<float> row(matrix.columns);
    for (uint32_t r = 0; r < matrix.rows; ++r) {
      matrix.Row(r, absl::MakeSpan(row));
      values.insert(values.end(), row.begin(), row.end());
    }
  };
  const LayerWeights& layer = *weights.Layer(0);
  add(layer.router);
  for (const ExpertWeights& expert : layer.experts) {
    add(expert.gate);
    add(expert.up);
    add(expert.down);
  }
  return values;
}

TEST_F(WeightFilesTest, ShardsAreOneCheckpoint) {
  PlanNumbers n;
  n.tp = 2;
  const SealedPlan plan = support::BuildSealedPlan(n);
  const TempFolder whole;
  support::WriteCheckpoint(whole.path(), checkpoint_);
  WriteShards(folder_.path(), checkpoint_);
  std::vector<std::vector<float>> values;
  for (const std::filesystem::path& folder : {whole.path(), folder_.path()}) {
    const absl::StatusOr<WeightFiles> files = WeightFiles::Open(plan, folder, nullptr);
    ASSERT_TRUE(files.ok()) << files.status();
    absl::StatusOr<RankWeights> weights = RankWeights::Reserve(plan, 1);
    ASSERT_TRUE(weights.ok());
    LoadProgress progress;
    ASSERT_TRUE(weights->Load(*files, 3, &progress).ok());
    EXPECT_EQ(progress.bytes.load(), weights->resident_bytes());
    values.push_back(AllOf(*weights));
  }
  EXPECT_EQ(values[0], values[1]);
  const absl::Status status = WeightFiles::Open(support::BuildSealedPlan({}), File(), nullptr).status();
  EXPECT_EQ(ReasonOf(status), Reason::kWeightsFile);
}

TEST_F(WeightFilesTest, NamesAMissingTensorOfShardsByTheirFolder) {
  Tensor(checkpoint_, "layers.0.router").name = "layers.0.ruoter";
  WriteShards(folder_.path(), checkpoint_);
  const absl::Status status = WeightFiles::Open(support::BuildSealedPlan({}), folder_.path(), nullptr).status();
  EXPECT_EQ(status.message(),
            absl::StrCat(folder_.path().string(),
                         ": tensor 'layers.0.router': not in the files, did you mean 'layers.0.ruoter'?"));
}

// The bytes that are read are those of the file that was checked, whatever the path leads to by then.
TEST_F(WeightFilesTest, ReadsTheFileThatItChecked) {
  support::WriteCheckpoint(folder_.path(), checkpoint_);
  const SealedPlan plan = support::BuildSealedPlan({});
  const absl::StatusOr<WeightFiles> files = WeightFiles::Open(plan, folder_.path(), nullptr);
  ASSERT_TRUE(files.ok());
  std::filesystem::remove(File());
  support::WriteCheckpoint(folder_.path(), RandomCheckpoint(plan.plan(), 99));
  absl::StatusOr<RankWeights> weights = RankWeights::Reserve(plan, 0);
  ASSERT_TRUE(weights.ok());
  ASSERT_TRUE(weights->Load(*files, 1, nullptr).ok());
  std::vector<float> row(16);
  weights->Layer(0)->router.Row(0, absl::MakeSpan(row));
  const std::vector<float>& expected = Tensor(checkpoint_, "layers.0.router").values;
  EXPECT_EQ(row, std::vector<float>(expected.begin(), expected.begin() + 16));
}

// A scale that is no number, wherever it stands, is told with its tensor and place; a scale of zero is good.
TEST(RankWeightsTest, NamesAScaleThatIsNoNumber) {
  const auto load = [](const PlanNumbers& n, const std::string& scales, DType dtype, std::vector<uint64_t> shape) {
    const SealedPlan plan = support::BuildSealedPlan(n);
    support::RawTensors tensors;
    for (const ReadTensor& read : ReadTensors(n.hidden, plan.plan().layer_classes)) {
      const StoredForm form = StoredForms(read.tensor, plan.plan().weight_source).front();
      std::string bytes(*BytesOf(form.dtype, *ElementsOf(form.shape)), '\0');
      if (read.name == "layers.0.experts.5.up_scale") {
        EXPECT_EQ(form, (StoredForm{dtype, shape}));
        bytes.replace(bytes.size() - scales.size(), scales.size(), scales);
      }
      tensors.push_back({read.name, form.dtype, form.shape, bytes});
    }
    const TempFolder folder;
    support::WriteFile(folder.path() / "model.safetensors", support::EncodeSafetensors(tensors));
    const absl::StatusOr<WeightFiles> files = WeightFiles::Open(plan, folder.path(), nullptr);
    EXPECT_TRUE(files.ok()) << files.status();
    absl::StatusOr<RankWeights> weights = RankWeights::Reserve(plan, n.tp * n.ep - 1);
    EXPECT_TRUE(weights.ok()) << weights.status();
    const absl::Status status = weights->Load(*files, 1, nullptr);
    EXPECT_EQ(ReasonOf(status), status.ok() ? std::optional<Reason>() : Reason::kWeightsTensor);
    return std::string(absl::StripPrefix(status.message(), (folder.path() / "model.safetensors: ").string()));
  };
  PlanNumbers n;
  n.experts = 6;
  n.ep = 2;
  n.weight_dtype = DType::kF8E4M3;
  const std::string infinity = {0, 0, '\x80', '\x7f'};
  const std::string nan = {1, 0, '\x80', '\x7f'};
  const std::string zero(4, '\0');
  for (const std::string& scale : {infinity, nan}) {
    EXPECT_EQ(load(n, scale, DType::kF32, {3, 4}),
              "tensor \'layers.0.experts.5.up_scale\', expert 5, scale 11 of this rank\'s part: it is not finite");
  }
  EXPECT_EQ(load(n, zero, DType::kF32, {3, 4}), "");
  n.tp = 3;
  n.column_unit = 4;
  EXPECT_EQ(load(n, nan, DType::kF32, {3, 4}),
            "tensor \'layers.0.experts.5.up_scale\', expert 5, scale 3 of this rank\'s part: it is not finite");
  n = PlanNumbers();
  n.experts = 6;
  n.hidden = n.intermediate = 32;
  n.weight_dtype = DType::kMxfp4;
  EXPECT_EQ(load(n, "\xff", DType::kU8, {32, 1}),
            "tensor \'layers.0.experts.5.up_scale\', expert 5, scale 31 of this rank\'s part: it is not finite");
  EXPECT_EQ(load(n, "\xfe", DType::kU8, {32, 1}), "");
  n.weight_dtype = DType::kNvfp4;
  EXPECT_EQ(load(n, "\x7f", DType::kF8E4M3, {32, 2}),
            "tensor \'layers.0.experts.5.up_scale\', expert 5, scale 63 of this rank\'s part: it is not finite");
  EXPECT_EQ(load(n, "\x81", DType::kF8E4M3, {32, 2}),
            "tensor \'layers.0.experts.5.up_scale\', expert 5, scale 63 of this rank\'s part: it has a sign");
}

TEST(RankWeightsTest, NamesABlockWhoseScaleIsNoNumber) {
  PlanNumbers n;
  n.hidden = n.intermediate = 32;
  n.experts = 2;
  n.weight_dtype = DType::kQ8_0;
  n.weight_source = WeightSource::kGguf;
  const SealedPlan plan = support::BuildSealedPlan(n);
  std::string bad(32 * 34, '\0');
  bad[31 * 34 + 1] = '\x7c';
  support::GgufWriter writer;
  writer.Tensor("layers.0.router", DType::kF32, std::vector<uint64_t>{32, 2}, std::string(256, '\0'));
  for (const char* expert : {"0", "1"}) {
    for (const char* role : {"gate", "up", "down"}) {
      const std::string name = absl::StrCat("layers.0.experts.", expert, ".", role);
      writer.Tensor(name, DType::kQ8_0, std::vector<uint64_t>{32, 32},
                    name == "layers.0.experts.1.down" ? bad : std::string(bad.size(), '\0'));
    }
  }
  const TempFolder folder;
  support::WriteFile(folder.path() / "model.gguf", writer.Bytes());
  const absl::StatusOr<WeightFiles> files = WeightFiles::Open(plan, folder.path(), nullptr);
  ASSERT_TRUE(files.ok()) << files.status();
  absl::StatusOr<RankWeights> weights = RankWeights::Reserve(plan, 0);
  ASSERT_TRUE(weights.ok());
  EXPECT_EQ(weights->Load(*files, 2, nullptr).message(),
            (folder.path() / "model.gguf").string() +
                ": tensor 'layers.0.experts.1.down', expert 1, block 31 of this rank's part: its scale is not finite");
}

std::vector<float> RowOfMatrix(const WeightMatrix& matrix, uint32_t row) {
  std::vector<float> values(matrix.columns);
  matrix.Row(row, absl::MakeSpan(values));
  return values;
}

TEST(RankWeightsTest, EveryAtomIsItsPieceOfTheTensor) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16}) {
    PlanNumbers n;
    n.layers = 2;
    n.tp = 5;
    n.ep = 3;
    n.dtype = dtype;
    const SealedPlan plan = support::BuildSealedPlan(n);
    const TempFolder folder;
    Checkpoint checkpoint = RandomCheckpoint(plan.plan(), 2);
    support::WriteCheckpoint(folder.path(), checkpoint);
    const absl::StatusOr<WeightFiles> files = WeightFiles::Open(plan, folder.path(), nullptr);
    ASSERT_TRUE(files.ok()) << files.status();
    const std::vector<uint32_t> expert_ends = {3, 6, 8};
    const std::vector<uint32_t> column_ends = {3, 6, 8, 10, 12};
    for (uint32_t rank = 0; rank < 15; ++rank) {
      absl::StatusOr<RankWeights> weights = RankWeights::Reserve(plan, rank);
      ASSERT_TRUE(weights.ok()) << weights.status();
      ASSERT_TRUE(weights->Load(*files, 2, nullptr).ok());
      EXPECT_EQ(weights->resident_bytes(), plan.plan().memory[rank].weights);
      EXPECT_EQ(weights->Layer(2), nullptr);
      const uint32_t first_expert = rank % 3 == 0 ? 0 : expert_ends[rank % 3 - 1];
      const uint32_t first_column = rank / 3 == 0 ? 0 : column_ends[rank / 3 - 1];
      for (const uint32_t layer : {0u, 1u}) {
        const LayerWeights& view = *weights->Layer(layer);
        const std::string prefix = absl::StrCat("layers.", layer, ".");
        const auto value = [&](const std::string& name, uint32_t row, uint32_t column, uint32_t width) {
          return Tensor(checkpoint, prefix + name).values[row * width + column];
        };
        ASSERT_EQ(view.router.rows, n.experts);
        for (uint32_t e = 0; e < n.experts; ++e) {
          for (uint32_t h = 0; h < n.hidden; ++h) {
            EXPECT_EQ(RowOfMatrix(view.router, e)[h], value("router", e, h, n.hidden));
          }
        }
        ASSERT_EQ(view.experts.size(), expert_ends[rank % 3] - first_expert);
        for (uint32_t local = 0; local < view.experts.size(); ++local) {
          const ExpertWeights& expert = view.experts[local];
          const std::string name = absl::StrCat("experts.", first_expert + local, ".");
          ASSERT_EQ(expert.gate.rows, column_ends[rank / 3] - first_column);
          ASSERT_EQ(expert.down.columns, expert.gate.rows);
          for (uint32_t c = 0; c < expert.gate.rows; ++c) {
            for (uint32_t h = 0; h < n.hidden; ++h) {
              EXPECT_EQ(RowOfMatrix(expert.gate, c)[h], value(name + "gate", first_column + c, h, n.hidden));
              EXPECT_EQ(RowOfMatrix(expert.up, c)[h], value(name + "up", first_column + c, h, n.hidden));
              EXPECT_EQ(RowOfMatrix(expert.down, h)[c], value(name + "down", h, first_column + c, n.intermediate));
            }
          }
        }
      }
    }
  }
}

TEST(RankWeightsTest, LayersOfOtherStagesAndWithoutExpertsHaveNone) {
  PlanNumbers n;
  n.layers = 4;
  n.moe_layers = {{1, 4}};
  n.pp = 2;
  const SealedPlan plan = support::BuildSealedPlan(n);
  const absl::StatusOr<RankWeights> weights = RankWeights::Reserve(plan, 0);
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->Layer(0), nullptr);
  EXPECT_NE(weights->Layer(1), nullptr);
  EXPECT_EQ(weights->Layer(2), nullptr);
}

TEST(DecodeRowTest, ReadsAnyAlignment) {
  const std::vector<uint16_t> bits = {0x3f80, 0xc000, 0x0001};
  std::vector<std::byte> bytes(1 + sizeof(uint16_t) * bits.size());
  std::memcpy(bytes.data() + 1, bits.data(), bytes.size() - 1);
  std::vector<float> out(3);
  DecodeRow(DType::kBf16, bytes.data() + 1, absl::MakeSpan(out));
  EXPECT_EQ(out, (std::vector<float>{1.0f, -2.0f, 9.18354961579912115600575419704879436e-41f}));
  DecodeRow(DType::kF16, bytes.data() + 1, absl::MakeSpan(out));
  EXPECT_EQ(out, (std::vector<float>{1.875f, -2.0f, 0x1p-24f}));
}

}  // namespace
}  // namespace meshseal::runtime
