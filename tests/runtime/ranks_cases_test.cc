// Faults of other systems that show when weights are loaded and layers run, each as its smallest input: the right value
// or a refusal. The numbers are those of the list of cases that lit/cases follows, too.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/reference/dot.h"
#include "runtime/reference/router_rule.h"
#include "runtime/session/session.h"
#include "schema/reason.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/digest_list.h"
#include "tests/support/plan_builder.h"

namespace meshseal::runtime {
namespace {

using support::Checkpoint;
using support::PlanNumbers;
using support::TempFolder;

Router Sigmoid() {
  Router router = PlanNumbers().router;
  router.scoring = Scoring::kSigmoid;
  return router;
}

SessionOptions Options(std::vector<std::filesystem::path> weights) {
  SessionOptions options;
  options.weights = std::move(weights);
  options.unverified_weights = true;
  options.deadline = std::chrono::milliseconds(20'000);
  return options;
}

struct Ran {
  absl::Status status;
  std::vector<float> output;
  RunResult result;
};

Ran RunLayer(Session& session, Phase phase, const std::vector<float>& hidden, uint32_t layer = 0,
             const Routing& routing = {}) {
  const uint32_t tokens = static_cast<uint32_t>(hidden.size() / session.plan()->plan().hidden);
  Ran ran;
  ran.output.resize(hidden.size());
  RunRequest request;
  request.layer = layer;
  request.phase = phase;
  request.tokens = tokens;
  request.hidden = hidden;
  request.output = absl::MakeSpan(ran.output);
  request.routing = routing;
  ran.status = session.Run(request, &ran.result);
  return ran;
}

std::unique_ptr<Session> Make(const PlanNumbers& n, const Checkpoint& checkpoint) {
  const TempFolder folder;
  support::WriteCheckpoint(folder.path(), checkpoint);
  absl::StatusOr<std::unique_ptr<Session>> session =
      Session::Create(support::BuildSealedPlan(n), Options({folder.path()}));
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

TEST(Cases, C15EveryGroupOfARowCounts) {
  for (uint32_t groups = 1; groups <= 12; ++groups) {
    const uint32_t inputs = 256 * groups;
    for (const DType dtype : {DType::kQ8_0, DType::kQ4_0}) {
      // Blocks of 32 ones: a scale of 1 and codes of 1, which q4_0 writes as 9.
      std::string row;
      for (uint32_t block = 0; block < inputs / 32; ++block) {
        row += std::string("\x00\x3c", 2) + (dtype == DType::kQ8_0 ? std::string(32, 1) : std::string(16, '\x99'));
      }
      WeightMatrix matrix;
      matrix.dtype = dtype;
      matrix.rows = 1;
      matrix.columns = inputs;
      matrix.row_bytes = row.size();
      matrix.data = reinterpret_cast<const std::byte*>(row.data());
      float sum = 0;
      Multiply(matrix, std::vector<float>(inputs, 1), absl::MakeSpan(&sum, 1));
      EXPECT_EQ(sum, static_cast<float>(inputs)) << DTypeName(dtype);
    }
  }
}

TEST(Cases, C16GateAndUpKeepTheirOwnScales) {
  for (const bool fused : {false, true}) {
    PlanNumbers n;
    n.hidden = n.intermediate = 32;
    n.experts = 2;
    n.weight_dtype = DType::kNvfp4;
    n.fused = fused;
    const SealedPlan plan = support::BuildSealedPlan(n);
    support::RawTensors tensors;
    for (const ReadTensor& read : ReadTensors(n.hidden, plan.plan().layer_classes)) {
      const auto& [hidden, layer_class, tensor, side] = read.tensor;
      const std::vector<StoredForm> forms = StoredForms(read.tensor, WeightSource::kSafetensors);
      const bool whole = side != nullptr && side->block_rows == 0;
      const bool both = whole && tensor->layout != GateUpLayout::kInvalid;
      const StoredForm& form = both ? forms[2] : forms[0];  // gate and up in one tensor have a scale each
      std::string bytes(*BytesOf(form.dtype, *ElementsOf(form.shape)), side == nullptr ? '\x22' : '\x38');  // ones
      if (whole) {
        const float scales[] = {tensor->role == TensorRole::kUp ? 0.01f : 0.02f, 0.01f};
        std::memcpy(bytes.data(), scales, bytes.size());
      }
      if (tensor->role == TensorRole::kRouter) bytes.assign(bytes.size(), '\0');
      tensors.push_back({read.name, form.dtype, form.shape, bytes});
    }
    const TempFolder folder;
    support::WriteFile(folder.path() / "model.safetensors", support::EncodeSafetensors(tensors));
    const absl::StatusOr<WeightFiles> files = WeightFiles::Open(plan, folder.path(), nullptr);
    ASSERT_TRUE(files.ok()) << files.status();
    absl::StatusOr<RankWeights> weights = RankWeights::Reserve(plan, 0);
    ASSERT_TRUE(weights.ok()) << weights.status();
    ASSERT_TRUE(weights->Load(*files, 1, nullptr).ok());
    std::vector<float> row(32);
    weights->Layer(0)->experts[1].gate.Row(31, absl::MakeSpan(row));
    EXPECT_EQ(row, std::vector<float>(32, 0.02f));
    weights->Layer(0)->experts[1].up.Row(31, absl::MakeSpan(row));
    EXPECT_EQ(row, std::vector<float>(32, 0.01f));
  }
}

TEST(Cases, C24GroupsThatAreLeftOutCannotWin) {
  Router router = Sigmoid();
  router.groups = {2, 1, GroupScore::kTop2Sum};
  const Selection selection =
      SelectExperts(router, std::vector<float>(4, 0), std::vector<float>{-0.6f, -0.7f, -1.0f, -1.1f}, 2);
  EXPECT_EQ(selection.experts, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(selection.weights, (std::vector<float>{0.5f, 0.5f}));
}

TEST(Cases, C25TheRoutedScaleIsAppliedOnce) {
  Router router = PlanNumbers().router;
  router.scale = 2.5f;
  const Selection selection = SelectExperts(router, std::vector<float>{std::log(0.6f), std::log(0.4f)}, {}, 2);
  EXPECT_EQ(selection.experts, (std::vector<int32_t>{0, 1}));
  EXPECT_NEAR(selection.weights[0], 1.5f, 1e-6);
  EXPECT_NEAR(selection.weights[1], 1.0f, 1e-6);
  // And by no other step: a layer with the scale gives 2.5 times what it gives without.
  PlanNumbers n;
  n.tp = 2;
  n.ep = 2;
  const Checkpoint checkpoint = support::RandomCheckpoint(support::BuildPlan(n), 1);
  const std::vector<float> hidden = support::RandomValues(3 * n.hidden, 2);
  const std::vector<float> plain = RunLayer(*Make(n, checkpoint), Phase::kDecode, hidden).output;
  n.router.scale = 2.5f;
  const std::vector<float> scaled = RunLayer(*Make(n, checkpoint), Phase::kDecode, hidden).output;
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(scaled[i], 2.5f * plain[i], 1e-6);
}

TEST(Cases, C28ExpertsAbove255AreChosen) {
  for (const size_t experts : {257u, 384u, 512u, 896u}) {
    std::vector<float> logits(experts, 0);
    const auto first = static_cast<int32_t>(experts - 1);
    const auto second = static_cast<int32_t>(experts > 300 ? 300 : 256 - 1);
    logits[static_cast<size_t>(first)] = 5;
    logits[static_cast<size_t>(second)] = 4;
    EXPECT_EQ(SelectExperts(PlanNumbers().router, logits, {}, 2).experts, (std::vector<int32_t>{first, second}));
  }
}

TEST(Cases, C29TheSelectionBiasStaysOutOfTheWeights) {
  const Selection selection =
      SelectExperts(Sigmoid(), std::vector<float>{0, 0.5f, 1}, std::vector<float>{0.9f, 0, 0}, 2);
  EXPECT_EQ(selection.experts, (std::vector<int32_t>{0, 2}));
  EXPECT_NEAR(selection.weights[0], 0.40615f, 1e-5);
  EXPECT_NEAR(selection.weights[1], 0.59385f, 1e-5);
}

TEST(Cases, C42AShardThatIsTooShortIsNamed) {
  PlanNumbers n;
  const SealedPlan plan = support::BuildSealedPlan(n);
  const Checkpoint checkpoint = support::RandomCheckpoint(plan.plan(), 1);
  const TempFolder folder;
  const std::string name = "model-00002-of-00002.safetensors";
  std::vector<Checkpoint> shards(2);
  std::vector<std::string> map;
  for (size_t i = 0; i < checkpoint.size(); ++i) {
    const size_t shard = i < checkpoint.size() / 2 ? 0 : 1;
    shards[shard].push_back(checkpoint[i]);
    map.push_back(absl::StrCat("\"", checkpoint[i].name, "\":\"model-0000", shard + 1, "-of-00002.safetensors\""));
  }
  support::WriteFile(folder.path() / "model-00001-of-00002.safetensors", support::EncodeSafetensors(shards[0]));
  support::WriteFile(folder.path() / "model.safetensors.index.json",
                     absl::StrCat("{\"metadata\":{},\"weight_map\":{", absl::StrJoin(map, ","), "}}"));
  const std::string whole = support::EncodeSafetensors(shards[1]);
  const std::string path = (folder.path() / name).string();
  const auto open = [&](size_t size) {
    support::WriteFile(path, whole.substr(0, size));
    return WeightFiles::Open(plan, folder.path(), nullptr).status();
  };
  EXPECT_TRUE(open(whole.size()).ok());
  const absl::Status data = open(whole.size() - 16);
  EXPECT_EQ(ReasonOf(data), Reason::kWeightsTruncated);
  EXPECT_EQ(data.message().substr(0, path.size()), path);
  EXPECT_TRUE(absl::StrContains(data.message(), absl::StrCat("the file has ", whole.size() - 16, " bytes"))) << data;
  EXPECT_TRUE(absl::StrContains(data.message(), shards[1].back().name)) << data;
  for (const size_t size : {size_t{40}, size_t{0}}) {
    const absl::Status header = open(size);
    EXPECT_EQ(ReasonOf(header), Reason::kWeightsTruncated) << header;
    EXPECT_EQ(header.message().substr(0, path.size()), path);
  }
}

TEST(Cases, C47AStageReadsItsOwnLayers) {
  PlanNumbers n;
  n.layers = 4;
  n.pp = 2;
  const Checkpoint checkpoint = support::RandomCheckpoint(support::BuildPlan(n), 1);
  const std::unique_ptr<Session> session = Make(n, checkpoint);
  const std::vector<float> hidden = support::RandomValues(3 * n.hidden, 2);
  n.pp = 1;
  const std::unique_ptr<Session> one = Make(n, checkpoint);
  for (uint32_t layer = 0; layer < 4; ++layer) {
    const Ran ran = RunLayer(*session, Phase::kDecode, hidden, layer);
    ASSERT_TRUE(ran.status.ok()) << ran.status;
    EXPECT_EQ(ran.output, RunLayer(*one, Phase::kDecode, hidden, layer).output);
  }
  EXPECT_EQ(session->resident_weight_bytes(0) + session->resident_weight_bytes(1), one->resident_weight_bytes(0));
}

TEST(Cases, C62OtherFilesOnOneRankAreNamedWithIt) {
  PlanNumbers n;
  n.ep = 4;
  Plan plan = support::BuildPlan(n);
  Checkpoint checkpoint = support::RandomCheckpoint(plan, 1);
  const TempFolder folder;
  const std::filesystem::path good = support::WriteCheckpoint(folder.path() / "good", checkpoint);
  const std::filesystem::path list = folder.path() / "list";
  support::WriteFile(list, support::BindDigests(good, &plan));
  const auto create = [&](const Checkpoint& other) {
    const std::filesystem::path bad = support::WriteCheckpoint(folder.path() / "bad", other);
    SessionOptions options = Options({good, good, good, bad});
    options.digests = list;
    options.unverified_weights = false;
    return Session::Create(support::Seal(plan), options).status();
  };
  EXPECT_TRUE(create(checkpoint).ok());
  Checkpoint other = checkpoint;
  float& value = support::Tensor(other, "layers.0.experts.7.gate").values[5];
  value = std::nextafter(value, 2.0f);
  const std::string file = (folder.path() / "bad" / "model.safetensors").string();
  const absl::Status bit = create(other);
  EXPECT_EQ(bit.message(),
            absl::StrCat("rank 3 (dp0 pp0 tp0 ep3): ", file,
                         ": tensor 'layers.0.experts.7.gate': expert 7, leaf 0 of 1: the bytes are not those of the "
                         "digest list"));
  EXPECT_EQ(ReasonOf(bit), Reason::kWeightsDigest);
  // Of what it does not own it reads nothing; what all have, each rank checks for itself.
  other = checkpoint;
  support::Tensor(other, "layers.0.experts.0.gate").values[5] = 0.25f;
  EXPECT_TRUE(create(other).ok());
  other = checkpoint;
  support::Tensor(other, "layers.0.router").values[0] = 0.25f;
  EXPECT_EQ(
      create(other).message(),
      absl::StrCat("rank 3 (dp0 pp0 tp0 ep3): ", file,
                   ": tensor 'layers.0.router': expert 0, leaf 0 of 1: the bytes are not those of the digest list"));
  other = checkpoint;
  support::Tensor(other, "layers.0.experts.7.gate").shape = {16, 12};
  EXPECT_EQ(create(other).message(),
            absl::StrCat("rank 3 (dp0 pp0 tp0 ep3): ", file,
                         ": tensor 'layers.0.experts.7.gate': f32 [16, 12] in the file, expected f32 [12, 16]"));
}

TEST(Cases, C69ARowOfNanIsAnErrorAndIdsStayDistinct) {
  PlanNumbers n;
  n.ep = 2;
  n.top_k = 4;
  const Checkpoint checkpoint = support::RandomCheckpoint(support::BuildPlan(n), 1);
  for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
    const std::unique_ptr<Session> session = Make(n, checkpoint);
    std::vector<float> hidden = support::RandomValues(7 * n.hidden, 2);
    const Ran good = RunLayer(*session, phase, hidden);
    ASSERT_TRUE(good.status.ok());
    for (size_t slot = 0; slot < good.result.expert_ids.size(); ++slot) {
      EXPECT_GE(good.result.expert_ids[slot], 0);
      EXPECT_LT(good.result.expert_ids[slot], 8);
      for (size_t other = slot / 4 * 4; other < slot; ++other) {
        EXPECT_NE(good.result.expert_ids[slot], good.result.expert_ids[other]);
      }
    }
    std::fill(hidden.begin() + 5 * 16, hidden.begin() + 6 * 16, std::nanf(""));
    const Ran bad = RunLayer(*session, phase, hidden);
    EXPECT_EQ(bad.status.message(),
              "rank 0 (dp0 pp0 tp0 ep0): layer 0, step 0 route: token 5: the router score of expert 0 is not finite");
    EXPECT_EQ(ReasonOf(bad.status), Reason::kNonFinite);
  }
}

TEST(Cases, C70AnExpertsOutputThatIsNoNumberStopsTheLayerWhateverItsWeight) {
  for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
    for (const float weight : {0.3f, 0.0f}) {
      for (const auto& [tp, ep] : {std::pair<uint32_t, uint32_t>{1, 1}, {1, 4}, {2, 2}}) {
        PlanNumbers n;
        n.tp = tp;
        n.ep = ep;
        n.router.scoring = Scoring::kPrecomputed;
        n.router.renormalize = Renormalize::kNone;
        Checkpoint checkpoint = support::RandomCheckpoint(support::BuildPlan(n), 1);
        support::Tensor(checkpoint, "layers.0.experts.5.down").values[0] = std::numeric_limits<float>::quiet_NaN();
        const std::unique_ptr<Session> session = Make(n, checkpoint);
        const std::vector<float> hidden = support::RandomValues(3 * n.hidden, 2);
        const std::vector<int32_t> experts = {0, 1, 2, 5, 6, 7};
        const std::vector<float> weights = {0.5f, 0.5f, 0.7f, weight, 0.5f, 0.5f};
        const Ran ran = RunLayer(*session, phase, hidden, 0, {experts, weights});
        EXPECT_EQ(ReasonOf(ran.status), Reason::kNonFinite) << ran.status;
        EXPECT_TRUE(absl::StrContains(ran.status.message(), ": token 1: the output of expert 5 is not finite"))
            << ran.status;
        for (const float value : ran.output) EXPECT_TRUE(std::isnan(value));
      }
    }
  }
}

}  // namespace
}  // namespace meshseal::runtime
