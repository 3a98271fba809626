// A trained model, against what PyTorch recorded of its MoE blocks (tests/data/tiny-qwen3-moe).
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/session/session.h"
#include "schema/safetensors.h"
#include "tests/runtime/oracle.h"
#include "tests/runtime/recorded_model.h"
#include "tests/support/plan_builder.h"

namespace meshseal::runtime {
namespace {

using support::PlanNumbers;
using support::RelativeDifference;

TEST(RecordedModelTest, EveryLayerGivesWhatWasRecorded) {
  struct World {
    uint32_t tp, ep;
  };
  for (const World world : {World{1, 1}, World{2, 1}, World{1, 3}, World{2, 2}}) {
    PlanNumbers n = RecordedModel();
    n.tp = world.tp;
    n.ep = world.ep;
    SessionOptions options;
    options.weights = {RecordedFolder()};
    options.unverified_weights = true;
    absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(support::BuildSealedPlan(n), options);
    ASSERT_TRUE(session.ok()) << session.status();
    for (const uint32_t tokens : {1u, 7u, 64u}) {
      const absl::StatusOr<SafetensorsFile> file =
          SafetensorsFile::Open(RecordedFolder() / "recorded" / absl::StrCat("prompt-", tokens, ".safetensors"));
      ASSERT_TRUE(file.ok()) << file.status();
      for (uint32_t layer = 0; layer < n.layers; ++layer) {
        const std::string prefix = absl::StrCat("layer.", layer, ".");
        const std::vector<float> hidden = Recorded<float>(*file, prefix + "hidden_in");
        const std::vector<float> expected = Recorded<float>(*file, prefix + "hidden_out");
        const Phase phase = tokens == 1 ? Phase::kDecode : Phase::kPrefill;
        std::vector<float> output(hidden.size());
        RunResult result;
        const absl::Status status = (*session)->Run({layer, phase, tokens, hidden, absl::MakeSpan(output)}, &result);
        ASSERT_TRUE(status.ok()) << status;
        EXPECT_LE(RelativeDifference(output, expected), 2e-6);
        EXPECT_EQ(result.expert_ids, Recorded<int32_t>(*file, prefix + "expert_ids"));
        EXPECT_LE(RelativeDifference(result.expert_weights, Recorded<float>(*file, prefix + "expert_weights")), 1e-6);
      }
    }
  }
}

}  // namespace
}  // namespace meshseal::runtime
