// Whole sessions of plans whose dense groups bring tokens of their own, on the stand-ins: over NCCL, with graphs, and
// on one device; compared with the reference backend.
#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cuda/cuda_compute.h"
#include "runtime/session/session.h"
#include "schema/fingerprint.h"
#include "schema/reason.h"
#include "tests/cuda/device_session.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/fake_nccl.h"
#include "tests/runtime/oracle.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/plan_builder.h"

namespace meshseal::cuda {
namespace {

using runtime::RunResult;
using runtime::Session;
using runtime::SessionOptions;
using support::PlanNumbers;

struct Case {
  uint32_t tp = 1;
  uint32_t ep = 1;
  uint32_t dense_tp = 1;
  Reduction reduction = Reduction::kOrdered;
  bool one_device = false;
};

class DenseGroupPlans : public DeviceSessionTest, public testing::WithParamInterface<Case> {
 protected:
  static constexpr uint32_t kLayers = 2;

  static PlanNumbers Numbers(const Case& c) {
    PlanNumbers n;
    n.tp = c.tp;
    n.ep = c.ep;
    n.dense_tp = c.dense_tp;
    n.layers = kLayers;
    n.copies = c.ep > 1 ? 2 : 0;  // which of them computes a token depends on its place among all
    n.residual = Residual::kAdd;
    n.shared_width = 8;
    n.weight_source = WeightSource::kSynthetic;
    n.transport = Transport::kNccl;
    n.capture_bytes = 1 << 20;
    n.reduction = c.reduction;
    n.decode_tokens = 4 * (c.tp * c.ep / c.dense_tp);
    n.prefill_chunk = 6;
    if (c.reduction == Reduction::kExact) {
      n.segments = 2;
      n.shared_segments = 4;
    }
    return n;
  }

  // In decode a group has one token, or up to four.
  static SealedPlan PlanOf(const Case& c) {
    Plan plan = support::BuildPlan(Numbers(c));
    plan.limits.decode_buckets = {1, plan.limits.decode_tokens};
    plan.execution_fingerprint = ExecutionFingerprint(plan);
    return support::Seal(plan);
  }

  static absl::StatusOr<std::unique_ptr<Session>> Open(const Case& c, std::shared_ptr<runtime::Compute> compute,
                                                       std::chrono::milliseconds deadline = std::chrono::minutes(10)) {
    SessionOptions options;
    options.emulate = true;
    options.deadline = deadline;
    options.compute = std::move(compute);
    return Session::Create(PlanOf(c), options);
  }

  static std::shared_ptr<runtime::Compute> Devices(const Case& c) {
    return c.one_device ? MakeLoopbackCompute(Unmanaged()) : MakeNcclCompute(Unmanaged());
  }

  static absl::Status Run(Session& session, Phase phase, const std::vector<uint32_t>& groups,
                          std::vector<float>* output, std::vector<RunResult>* results) {
    const uint32_t tokens = std::accumulate(groups.begin(), groups.end(), 0u);
    const std::vector<float> hidden = support::RandomValues(size_t{tokens} * 16, 7);
    output->assign(hidden.size(), 0);
    return session.RunStack({phase, tokens, hidden, absl::MakeSpan(*output), {}, groups}, results);
  }
};

TEST_P(DenseGroupPlans, GiveWhatTheReferenceGives) {
  const Case& c = GetParam();
  const uint32_t ranks = c.tp * c.ep;
  const uint32_t groups = ranks / c.dense_tp;
  fake_nccl::Options nccl;
  nccl.order = fake_nccl::SumOrder::kRing;
  Machine(3, c.one_device ? 1 : ranks, nccl);
  absl::StatusOr<std::unique_ptr<Session>> reference = Open(c, nullptr);
  ASSERT_TRUE(reference.ok()) << reference.status();
  absl::StatusOr<std::unique_ptr<Session>> devices = Open(c, Devices(c));
  ASSERT_TRUE(devices.ok()) << devices.status();
  // Decode runs as it is, is captured and replayed with other groups of the same bucket; then the bucket of one token.
  const std::vector<std::vector<uint32_t>> of_four = {{3, 0, 4, 1}, {2, 3, 1, 4}, {0, 0, 0, 3},
                                                      {1, 0, 1, 0}, {0, 1, 0, 0}, {0, 0, 0, 0}};
  const std::vector<std::vector<uint32_t>> of_two = {{3, 1}, {0, 4}, {2, 0}, {1, 0}, {0, 1}, {0, 0}};
  std::vector<std::pair<Phase, std::vector<uint32_t>>> calls;
  for (const std::vector<uint32_t>& counts : groups == 4 ? of_four : of_two) {
    calls.emplace_back(Phase::kDecode, counts);
    if (calls.size() <= 2) calls.emplace_back(Phase::kPrefill, counts);  // in rounds
  }
  for (const auto& [phase, counts] : calls) {
    SCOPED_TRACE(testing::Message() << WordOf(phase) << " of " << testing::PrintToString(counts));
    std::vector<float> expected;
    std::vector<float> found;
    std::vector<RunResult> expected_results;
    std::vector<RunResult> results;
    ASSERT_EQ(Run(**reference, phase, counts, &expected, &expected_results), absl::OkStatus());
    ASSERT_EQ(Run(**devices, phase, counts, &found, &results), absl::OkStatus());
    ASSERT_EQ(results.size(), kLayers);
    for (size_t layer = 0; layer < kLayers; ++layer) {
      EXPECT_EQ(results[layer].expert_ids, expected_results[layer].expert_ids);
      for (size_t rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(results[layer].ranks[rank].counters.down_slots,
                  expected_results[layer].ranks[rank].counters.down_slots);
      }
    }
    if (c.reduction == Reduction::kExact) {
      for (size_t i = 0; i < found.size(); ++i) {
        ASSERT_EQ(std::bit_cast<uint32_t>(found[i]), std::bit_cast<uint32_t>(expected[i])) << i;
      }
    } else if (!found.empty()) {
      EXPECT_LE(support::RelativeDifference(found, expected), 4e-6);
    }
  }
  // Of each rank and layer, one of each bucket.
  EXPECT_EQ(fake_cuda::LeakReport().graph_execs, c.one_device ? 0 : 2 * kLayers * ranks);
  devices->reset();
  EXPECT_EQ(fake_cuda::CallCount("ncclCommAbort"), 0u);
}

// Wherever its token comes from, all ranks score it, and one refusal ends all: in the reference's words.
TEST_P(DenseGroupPlans, RefuseWhatTheReferenceRefuses) {
  const Case& c = GetParam();
  Machine(3, c.one_device ? 1 : c.tp * c.ep);
  const uint32_t groups = c.tp * c.ep / c.dense_tp;
  std::vector<uint32_t> counts(groups, 1);
  std::vector<float> hidden = support::RandomValues(size_t{groups} * 16, 7);
  hidden[hidden.size() - 3] = std::numeric_limits<float>::infinity();
  std::vector<std::string> said;
  for (const std::shared_ptr<runtime::Compute>& compute : {std::shared_ptr<runtime::Compute>(), Devices(c)}) {
    absl::StatusOr<std::unique_ptr<Session>> session = Open(c, compute);
    ASSERT_TRUE(session.ok()) << session.status();
    std::vector<float> output(hidden.size());
    std::vector<RunResult> results;
    const absl::Status status =
        (*session)->RunStack({Phase::kDecode, groups, hidden, absl::MakeSpan(output), {}, counts}, &results);
    EXPECT_EQ(ReasonOf(status), Reason::kNonFinite) << status;
    said.emplace_back(status.message());
  }
  EXPECT_EQ(said[1], said[0]);
  EXPECT_NE(said[0].find("(tokens counted over all dense groups)"), std::string::npos) << said[0];
}

INSTANTIATE_TEST_SUITE_P(Worlds, DenseGroupPlans,
                         testing::Values(Case{1, 4, 1}, Case{1, 4, 1, Reduction::kFast},
                                         Case{1, 4, 1, Reduction::kExact}, Case{2, 2, 2},
                                         Case{2, 2, 2, Reduction::kFast}, Case{2, 2, 2, Reduction::kExact},
                                         Case{2, 2, 1, Reduction::kOrdered, true},
                                         Case{2, 2, 2, Reduction::kFast, true},
                                         Case{2, 2, 2, Reduction::kExact, true}));

}  // namespace
}  // namespace meshseal::cuda
