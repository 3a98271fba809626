// What of a checkpoint is refused, with which words, and that a rank reads its own atoms and nothing else.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/weights/rank_weights.h"
#include "runtime/weights/weight_files.h"
#include "runtime/weights/weight_matrix.h"
#include "schema/reason.h"
#include "tests/support/checkpoint_writer.h"
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
    return WeightFiles::Open(support::BuildSealedPlan(numbers), folder_.path()).status();
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
  EXPECT_EQ(status.message(), File() + ": tensor 'layers.0.router': dtype f16, the plan's is f32");
  EXPECT_EQ(ReasonOf(status), Reason::kWeightsTensor);
}

TEST_F(WeightFilesTest, NamesAnotherShape) {
  Tensor(checkpoint_, "layers.0.experts.7.down").shape = {12, 16};
  const absl::Status status = OpenStatus(checkpoint_);
  EXPECT_EQ(status.message(), File() +
                                  ": tensor 'layers.0.experts.7.down': shape [12, 16], the plan's is [16, 12] "
                                  "(hidden, intermediate)");
  EXPECT_EQ(ReasonOf(status), Reason::kWeightsTensor);
}

TEST_F(WeightFilesTest, NamesAFileThatIsTooShort) {
  support::WriteCheckpoint(folder_.path(), checkpoint_);
  const auto size = std::filesystem::file_size(File());
  std::filesystem::resize_file(File(), size - 1);
  const absl::Status status = WeightFiles::Open(support::BuildSealedPlan({}), folder_.path()).status();
  const uint64_t data = 4 * (8 * 16 + 8 * 3 * 12 * 16);
  EXPECT_EQ(status.message(),
            absl::StrCat(File(), ": tensor 'layers.0.experts.7.down': needs ", data, " bytes of data from byte ",
                         size - data, " on, but the file has ", size - 1, " bytes"));
  EXPECT_EQ(ReasonOf(status), Reason::kWeightsTruncated);
}

TEST_F(WeightFilesTest, NamesAFileThatBecameShorterSinceItWasOpened) {
  support::WriteCheckpoint(folder_.path(), checkpoint_);
  const SealedPlan plan = support::BuildSealedPlan({});
  const absl::StatusOr<WeightFiles> files = WeightFiles::Open(plan, folder_.path());
  ASSERT_TRUE(files.ok());
  const auto size = std::filesystem::file_size(File());
  std::filesystem::resize_file(File(), size - 4);
  absl::StatusOr<RankWeights> weights = RankWeights::Reserve(plan, 0);
  ASSERT_TRUE(weights.ok());
  const absl::Status status = weights->Load(plan, *files);
  EXPECT_EQ(status.message(),
            absl::StrCat(File(), ": ends at byte ", size - 4, ", but had ", size, " bytes when it was opened"));
  EXPECT_EQ(ReasonOf(status), Reason::kWeightsTruncated);
}

TEST_F(WeightFilesTest, NamesAFolderWithoutACheckpoint) {
  const absl::Status status = WeightFiles::Open(support::BuildSealedPlan({}), folder_.path()).status();
  EXPECT_EQ(status.message(), File() + ": cannot be opened: No such file or directory");
  EXPECT_EQ(ReasonOf(status), Reason::kWeightsFile);
}

TEST_F(WeightFilesTest, ShardsAreNotBuilt) {
  support::WriteCheckpoint(folder_.path(), checkpoint_);
  support::WriteFile(folder_.path() / "model.safetensors.index.json", "{}");
  const absl::Status status = WeightFiles::Open(support::BuildSealedPlan({}), folder_.path()).status();
  EXPECT_EQ(status.message(), File() + ".index.json: sharded checkpoints are not built yet");
  EXPECT_EQ(ReasonOf(status), Reason::kNotBuilt);
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
    const absl::StatusOr<WeightFiles> files = WeightFiles::Open(plan, folder.path());
    ASSERT_TRUE(files.ok()) << files.status();
    const std::vector<uint32_t> expert_ends = {3, 6, 8};
    const std::vector<uint32_t> column_ends = {3, 6, 8, 10, 12};
    for (uint32_t rank = 0; rank < 15; ++rank) {
      absl::StatusOr<RankWeights> weights = RankWeights::Reserve(plan, rank);
      ASSERT_TRUE(weights.ok()) << weights.status();
      ASSERT_TRUE(weights->Load(plan, *files).ok());
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
