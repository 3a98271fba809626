// From the shipped documents through the seal to what the trained model itself computed: every world, phase, layer and
// batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/driver/compile.h"
#include "runtime/session/session.h"
#include "schema/mesh_view.h"
#include "schema/reason.h"
#include "schema/safetensors.h"
#include "schema/seal.h"
#include "schema/sealed_plan.h"

namespace meshseal {
namespace {

namespace fs = std::filesystem;

const fs::path kModel = fs::path(MESHSEAL_TEST_DATA) / "tiny-qwen3-moe";
constexpr uint32_t kTopK = 4;
constexpr uint32_t kLayers = 3;
constexpr double kBound = 2e-5;

std::string CompileShipped(const std::string& deployment) {
  compiler::CompileRequest request;
  request.deployment = (fs::path(MESHSEAL_MANIFESTS) / "deployments" / (deployment + ".yaml")).string();
  const absl::StatusOr<compiler::CompileResult> result = compiler::Compile(request);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? result->sealed : "";
}

template <class T>
std::vector<T> Recorded(const SafetensorsFile& file, const std::string& name) {
  const absl::StatusOr<const TensorEntry*> entry = file.Find(name);
  EXPECT_TRUE(entry.ok()) << entry.status();
  if (!entry.ok()) return {};
  std::vector<T> values(((*entry)->end - (*entry)->begin) / sizeof(T));
  const auto bytes = absl::MakeSpan(reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(T));
  EXPECT_TRUE(file.Read((*entry)->begin, bytes).ok());
  return values;
}

// max|a - b| / max|b|; infinite for a NaN.
double RelativeError(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double largest = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    if (std::isnan(a[i])) return std::numeric_limits<double>::infinity();
    difference = std::max(difference, std::fabs(double{a[i]} - double{b[i]}));
    largest = std::max(largest, std::fabs(double{b[i]}));
  }
  return difference / largest;
}

class ShippedPlans : public testing::TestWithParam<const char*> {};

TEST_P(ShippedPlans, GiveWhatTheModelComputed) {
  absl::StatusOr<SealedPlan> plan = SealedPlan::Open(CompileShipped(GetParam()), Policy{});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const Degrees degrees = plan->plan().degrees;
  const uint32_t world = *WorldOf(degrees);
  runtime::SessionOptions options;
  options.weights = {kModel};
  options.unverified_weights = true;
  absl::StatusOr<std::unique_ptr<runtime::Session>> session = runtime::Session::Create(*std::move(plan), options);
  ASSERT_TRUE(session.ok()) << session.status();

  for (const uint32_t tokens : {1u, 7u, 64u, 192u}) {
    const absl::StatusOr<SafetensorsFile> file =
        SafetensorsFile::Open(kModel / "recorded" / absl::StrCat("prompt-", tokens, ".safetensors"));
    ASSERT_TRUE(file.ok()) << file.status();
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      const std::string prefix = absl::StrCat("layer.", layer, ".");
      const std::vector<float> hidden = Recorded<float>(*file, prefix + "hidden_in");
      const std::vector<float> expected = Recorded<float>(*file, prefix + "hidden_out");
      const std::vector<int32_t> experts = Recorded<int32_t>(*file, prefix + "expert_ids");
      for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
        SCOPED_TRACE(absl::StrCat(GetParam(), " ", WordOf(phase), " layer ", layer, " of ", tokens, " tokens"));
        std::vector<float> output(expected.size(), std::numeric_limits<float>::quiet_NaN());
        runtime::RunRequest request;
        request.layer = layer;
        request.phase = phase;
        request.tokens = tokens;
        request.hidden = hidden;
        request.output = absl::MakeSpan(output);
        runtime::RunResult result;
        const absl::Status status = (*session)->Run(request, &result);
        ASSERT_TRUE(status.ok()) << status;
        EXPECT_LE(RelativeError(output, expected), kBound);
        EXPECT_EQ(result.expert_ids, experts);
        // Ownership is real: each slot is projected by its owner alone, once per tensor-parallel rank.
        uint64_t projected = 0;
        for (uint32_t rank = 0; rank < world; ++rank) {
          const uint32_t ep = CoordinateOf(degrees, rank).ep;
          uint64_t owned = 0;
          for (const int32_t expert : experts) {
            const auto& shards = (*session)->plan()->plan().layer_classes[0].expert_shards;
            if (shards[static_cast<size_t>(expert)].owner == ep) ++owned;
          }
          EXPECT_EQ(result.ranks[rank].counters.gate_up_slots, owned);
          EXPECT_EQ(result.ranks[rank].counters.down_slots, owned);
          projected += result.ranks[rank].counters.down_slots;
        }
        EXPECT_EQ(projected, uint64_t{tokens} * kTopK * degrees.tp);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, ShippedPlans,
                         testing::Values("tiny-1", "tiny-ep4", "tiny-ep2-tp2", "tiny-ep3", "tiny-ep3-round-robin",
                                         "tiny-exact-ep4", "tiny-exact-ep2-tp2"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Two worlds and both phases, the same bits.
TEST(ExactPlans, GiveTheSameBits) {
  const absl::StatusOr<SafetensorsFile> file = SafetensorsFile::Open(kModel / "recorded" / "prompt-64.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<uint32_t> first;
  for (const char* deployment : {"tiny-exact-ep4", "tiny-exact-ep2-tp2"}) {
    absl::StatusOr<SealedPlan> plan = SealedPlan::Open(CompileShipped(deployment), Policy{});
    ASSERT_TRUE(plan.ok()) << plan.status();
    runtime::SessionOptions options;
    options.weights = {kModel};
    options.unverified_weights = true;
    absl::StatusOr<std::unique_ptr<runtime::Session>> session = runtime::Session::Create(*std::move(plan), options);
    ASSERT_TRUE(session.ok()) << session.status();
    for (const Phase phase : {Phase::kDecode, Phase::kPrefill}) {
      SCOPED_TRACE(absl::StrCat(deployment, " ", WordOf(phase)));
      const std::vector<float> hidden = Recorded<float>(*file, "layer.1.hidden_in");
      std::vector<float> output(hidden.size());
      runtime::RunRequest request;
      request.layer = 1;
      request.phase = phase;
      request.tokens = 64;
      request.hidden = hidden;
      request.output = absl::MakeSpan(output);
      runtime::RunResult result;
      const absl::Status status = (*session)->Run(request, &result);
      ASSERT_TRUE(status.ok()) << status;
      std::vector<uint32_t> bits;
      for (const float value : output) bits.push_back(std::bit_cast<uint32_t>(value));
      if (first.empty()) first = bits;
      EXPECT_TRUE(bits == first);
    }
  }
}

TEST(DemoPlan, EverySingleByteChangeIsRefusedWithExit3) {
  const std::string file = CompileShipped("tiny-ep4");
  ASSERT_TRUE(SealedPlan::Open(file, Policy{}).ok());
  size_t refused = 0;
  std::string changed = file;
  for (size_t at = 0; at < file.size(); ++at) {
    // All 255 other values of each header byte; each bit and the complement of each payload byte.
    for (int change = 1; change < 256; ++change) {
      const bool tried = at < kSealSize || (change & (change - 1)) == 0 || change == 255;
      if (!tried) continue;
      changed[at] = static_cast<char>(file[at] ^ change);
      const absl::Status status = SealedPlan::Open(changed, Policy{}).status();
      ASSERT_FALSE(status.ok()) << "byte " << at << " ^ " << change;
      ASSERT_EQ(ExitCodeOf(status), 3) << status;
      ++refused;
    }
    changed[at] = file[at];
  }
  EXPECT_EQ(refused, kSealSize * 255 + (file.size() - kSealSize) * 9);
  for (size_t size = 0; size < file.size(); ++size) {
    ASSERT_EQ(ExitCodeOf(SealedPlan::Open(file.substr(0, size), Policy{}).status()), 3) << size;
  }
  for (const char* tail : {"x", "\n", "\0"}) {
    EXPECT_EQ(ExitCodeOf(SealedPlan::Open(file + std::string(tail, 1), Policy{}).status()), 3);
  }
}

}  // namespace
}  // namespace meshseal
